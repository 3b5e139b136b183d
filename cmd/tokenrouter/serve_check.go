package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Limits far beyond any use, below which no product of two overflows and no
// table of blocks fills the memory by itself.
const (
	mostThreads  = 1024
	mostContext  = 1 << 24
	mostKVTokens = 1 << 30
	mostRunning  = 1 << 16
	mostChunk    = 1 << 24
	mostDelayMs  = 1e9
	leastContext = 2  // a token of the prompt and one of the answer
	leastKV      = 64 // with less even short questions are refused
)

// checkNumbers looks at the numbers whose sense is plain without the models.
func (o *serveOptions) checkNumbers() error {
	for _, n := range []struct {
		flag             string
		got, least, most int
		special          int // a value outside of these that is fine
		meaning          string
	}{
		{"threads", o.threads, 1, mostThreads, 0, "0 for all cores"},
		{"context", o.context, leastContext, mostContext, 0, "0 for what the models were made for"},
		{"kv-tokens", o.kvTokens, leastKV, mostKVTokens, 0, "0 for the default"},
		{"max-running", o.maxRunning, 1, mostRunning, 1, ""},
		{"chunk-tokens", o.chunkTokens, 1, mostChunk, 1, ""},
		{"queue-limit", o.queueLimit, 0, math.MaxInt32, 0, ""},
		{"max-logprobs", o.maxLogprobs, 0, math.MaxInt32, -1, "-1 for any number"},
	} {
		if n.got == n.special || n.got >= n.least && n.got <= n.most {
			continue
		}
		or := ""
		if n.meaning != "" {
			or = ", or " + n.meaning
		}
		return fmt.Errorf("--%s must be %d to %d%s, got %d", n.flag, n.least, n.most, or, n.got)
	}
	for _, b := range o.b {
		if b < 1 {
			return fmt.Errorf("--b must be at least 1 for each model, got %d", b)
		}
	}
	switch {
	case !(o.maxDelayMs >= 0 && o.maxDelayMs <= mostDelayMs):
		return fmt.Errorf("--max-delay-ms must be 0 to %g, got %g", float64(mostDelayMs), o.maxDelayMs)
	case !(o.drainS >= 0):
		return fmt.Errorf("--drain-s must be at least 0, got %g", o.drainS)
	}
	return nil
}

// drain is how long open requests have to end.
func (o *serveOptions) drain() time.Duration { return seconds(o.drainS) }

// checkNames refuses names of the pair that are taken: a client who asks for one
// model would get both.
func (o *serveOptions) checkNames(s *site) error {
	if len(s.models) < 2 {
		return nil
	}
	for _, m := range s.models {
		if slices.Contains(o.name, m.shown) {
			return fmt.Errorf("--served-model-name %s is the name of one of the models alone; give the pair another", m.shown)
		}
	}
	return nil
}

// repeated is the first of names that stands there twice, "" if none does.
func repeated(names []string) string {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}
