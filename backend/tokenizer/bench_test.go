package tokenizer

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// ratio reports how many times as long slow takes as fast, both run in turn so
// that they share whatever else the machine does. Neither collects the garbage of
// the other.
func ratio(b *testing.B, slow, fast func()) {
	var slowTime, fastTime time.Duration
	for b.Loop() {
		slowTime += timed(slow)
		fastTime += timed(fast)
	}
	b.ReportMetric(float64(slowTime)/float64(fastTime), "ratio")
	b.ReportMetric(float64(fastTime.Milliseconds())/float64(b.N), "fast-ms/op")
}

func timed(f func()) time.Duration {
	runtime.GC()
	start := time.Now()
	f()
	return time.Since(start)
}

// Reading Qwen3's vocabulary, against what encoding/json takes for the same
// bytes before anything is built of them.
func BenchmarkOpenAgainstJSON(b *testing.B) {
	openQwen3(b)
	text, err := os.ReadFile(os.Getenv(qwen3Variable))
	if err != nil {
		b.Fatal(err)
	}
	ratio(b, func() {
		var file struct {
			Model struct {
				Vocab  map[string]int
				Merges [][2]string
			}
		}
		if err := json.Unmarshal(text, &file); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if _, err := parse(string(text)); err != nil {
			b.Fatal(err)
		}
	})
}

// The scanner against the pattern that it stands for, in whole encodings of
// mixed text.
func BenchmarkEncodeAgainstPattern(b *testing.B) {
	fast, slow := open(b, "qwen"), open(b, "qwen")
	pattern, err := newPatternStep(patternQwen)
	if err != nil {
		b.Fatal(err)
	}
	slow.steps = []step{pattern}
	text := strings.Repeat(strings.Join(readTexts(b), " "), 4)
	b.SetBytes(int64(2 * len(text)))
	ratio(b, func() { slow.Encode(text, false) }, func() { fast.Encode(text, false) })
}

// A word of a megabyte: twice the length takes little more than twice the time.
func BenchmarkEncodeLongWord(b *testing.B) {
	tok := open(b, "qwen")
	long := strings.Repeat("router", 1<<17)
	ratio(b, func() { tok.Encode(long, false) }, func() { tok.Encode(long[:len(long)/2], false) })
}
