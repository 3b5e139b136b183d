package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"sync"

	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/internal/regular"
)

// cpuModel looks at the model that runs on this machine, without reading its
// weights, or says what is wrong with it.
func (f *files) cpuModel(path, name string, fail failFunc) *CPUModel {
	full := name
	if !f.fromSet(path) {
		full = engines.Below(f.dir, name)
	}
	r := f.once("cpu "+full, func() *readFile {
		shape, err := engines.Config(full)
		if err != nil {
			return &readFile{err: err}
		}
		digest, err := weightsDigest(full)
		return &readFile{cpu: &CPUModel{Model: full, Vocab: shape.Vocab, Positions: shape.MaxPositions, Digest: digest}, err: err}
	})
	if r.err != nil {
		fail(path, "", "%v", r.err)
		return nil
	}
	own := *r.cpu
	return &own
}

// weightsDigest names what a model is made of: its configuration, and the sizes
// and times of its weights, which would take too long to read. It is "" for what
// the program itself carries, which its build names.
func weightsDigest(name string) (string, error) {
	path := engines.ConfigFile(name)
	if path == "" {
		return "", nil
	}
	h := sha256.New()
	text, err := regular.ReadFile(path)
	if err != nil {
		return "", plainError("read", path, err)
	}
	h.Write(text)
	if !engines.IsFolder(name) {
		return digestText(h), nil
	}
	shards, err := filepath.Glob(filepath.Join(name, "*.safetensors"))
	if err != nil {
		return "", err
	}
	if len(shards) == 0 {
		return "", fmt.Errorf("%s holds no *.safetensors", name)
	}
	for _, shard := range shards {
		info, err := os.Stat(shard)
		if err != nil {
			return "", plainError("open", shard, err)
		}
		fmt.Fprintf(h, "%s %d %d\n", filepath.Base(shard), info.Size(), info.ModTime().UnixNano())
	}
	return digestText(h), nil
}

func digestText(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// opened are the weights of all cells, which are measured one after the other:
// they stay open until the program ends.
var opened = struct {
	sync.Mutex
	at map[string]*engines.Weights
}{at: map[string]*engines.Weights{}}

func openWeights(ctx context.Context, name string) (*engines.Weights, error) {
	opened.Lock()
	defer opened.Unlock()
	if w := opened.at[name]; w != nil {
		return w, nil
	}
	w, err := engines.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	opened.at[name] = w
	return w, nil
}

// checkMemory refuses models that this machine could not hold even if nothing
// else ran.
func checkMemory(names []string, models []*CPUModel, fail failFunc) {
	var needs []engines.Need
	for i, m := range models {
		if m == nil {
			return // which is an error of its own
		}
		needs = append(needs, engines.Need{Name: m.Model, KVTokens: m.KVTokens})
		var full *engines.MemoryError
		if !errors.As(engines.EverFits(needs...), &full) {
			continue
		}
		at, fix := "models."+names[i]+".cpu.model", "take a smaller model"
		if m.KVTokens > 0 && full.OfKV() {
			at, fix = "models."+names[i]+".cpu.kv_tokens", "lower it"
		}
		fail(at, fix, "%s", full.Numbers())
		return
	}
}
