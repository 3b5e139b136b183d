package experiments

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tokenrouter/tokenrouter/experiments/engines"
)

// cpuModel looks at the model that runs on this machine, without reading its
// weights, or says what is wrong with it.
func (f *files) cpuModel(path, name string, fail failFunc) *CPUModel {
	full := name
	if !f.fromSet(path) {
		full = engines.Below(f.dir, name)
	}
	r := f.once("cpu "+full, func() *readFile {
		if _, err := engines.Config(full); err != nil {
			return &readFile{err: err}
		}
		digest, err := weightsDigest(full)
		return &readFile{cpu: &CPUModel{Model: full, Digest: digest}, err: err}
	})
	if r.err != nil {
		fail(path, "", "%v", r.err)
		return nil
	}
	own := *r.cpu
	return &own
}

// weightsDigest names what is in a folder: its configuration, and the sizes and
// times of its weights, which would take too long to read.
func weightsDigest(name string) (string, error) {
	if !engines.IsFolder(name) {
		return "", nil
	}
	h := sha256.New()
	text, err := os.ReadFile(filepath.Join(name, "config.json"))
	if err != nil {
		return "", plainError("read", filepath.Join(name, "config.json"), err)
	}
	h.Write(text)
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
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// opened are the weights of all cells, which are measured one after the other:
// they stay open until the program ends.
var opened = struct {
	sync.Mutex
	at map[string]*engines.Weights
}{at: map[string]*engines.Weights{}}

func openWeights(name string) (*engines.Weights, error) {
	opened.Lock()
	defer opened.Unlock()
	if w := opened.at[name]; w != nil {
		return w, nil
	}
	w, err := engines.Open(name)
	if err != nil {
		return nil, err
	}
	opened.at[name] = w
	return w, nil
}
