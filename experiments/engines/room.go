package engines

import (
	"fmt"
	"math"
	"runtime/debug"
	"strings"
)

// Need is a model that is to have memory of its own: weights that are made up,
// and KV. Weights of a folder are mapped and take none.
type Need struct {
	Name     string // as Open takes it
	KVTokens int
	Open     bool // its weights are there already
}

// MemoryError says that models do not fit into this machine's memory.
type MemoryError struct {
	Names               []string // without folders' paths
	WeightBytes, KV     float64  // in bytes; floats, for they may be absurd
	FreeBytes, AllBytes int64    // FreeBytes is AllBytes where nothing is said of what others use
}

func (e *MemoryError) Error() string {
	if e.OfKV() {
		return e.Numbers() + "; ask for fewer requests at once, or shorter ones"
	}
	return e.Numbers() + "; take a smaller model"
}

// OfKV reports whether it is rather the KV than the weights.
func (e *MemoryError) OfKV() bool { return e.KV > e.WeightBytes }

// Numbers is what is wrong, without a fix.
func (e *MemoryError) Numbers() string {
	var parts []string
	for _, p := range []struct {
		bytes float64
		what  string
	}{{e.WeightBytes, "made-up weights"}, {e.KV, "KV"}} {
		if p.bytes > (e.WeightBytes+e.KV)/100 { // less explains nothing
			parts = append(parts, fmt.Sprintf("%.1f GB of %s", p.bytes/1e9, p.what))
		}
	}
	free := fmt.Sprintf("this machine has %.1f GB", float64(e.AllBytes)/1e9)
	if e.FreeBytes < e.AllBytes {
		free += fmt.Sprintf(", of which %.1f are free", float64(e.FreeBytes)/1e9)
	}
	takes := "it takes"
	if len(e.Names) > 1 {
		takes = "they take"
	}
	return fmt.Sprintf("no memory for %s: %s %s, and %s", strings.Join(e.Names, " and "), takes, strings.Join(parts, " and "), free)
}

// Fits says why models cannot have memory now, beside whatever else runs; nil if
// they can, or if the machine does not say what it has.
func Fits(needs ...Need) error {
	total, free := memory()
	if free <= 0 {
		free = total
	}
	err := fits(total, free, needs)
	if err == nil {
		return nil
	}
	// What engines held that are closed may not have gone back to the system yet.
	debug.FreeOSMemory()
	if total, again := memory(); again > free {
		return fits(total, again, needs)
	}
	return err
}

// EverFits is like Fits on a machine where nothing else runs.
func EverFits(needs ...Need) error {
	total, _ := memory()
	return fits(total, total, needs)
}

func fits(total, free int64, needs []Need) error {
	e := &MemoryError{FreeBytes: free, AllBytes: total}
	for _, n := range needs {
		c, err := Config(n.Name)
		if err != nil {
			return err
		}
		if !n.Open && !IsFolder(n.Name) {
			e.WeightBytes += math.Max(float64(c.WeightBytes())/float64(c.BytesPerWeight())*madeUpBytes, 0)
		}
		e.KV += float64(n.KVTokens) * float64(KVBytesPerToken(c))
		e.Names = append(e.Names, ShortName(n.Name))
	}
	if total <= 0 || e.WeightBytes+e.KV <= float64(free) {
		return nil
	}
	return e
}

// madeUpBytes is what a weight takes that Open makes up: it is a bf16.
const madeUpBytes = 2

// Crowded warns of weights that are mapped and larger than the memory; "" if
// they are not.
func (w *Weights) Crowded() string {
	total, _ := memory()
	if !IsFolder(w.Name) || total <= 0 || w.WeightBytes() <= total {
		return ""
	}
	return fmt.Sprintf("the weights of %s take %.1f GB, and this machine has %.1f: steps will wait for the disk",
		ShortName(w.Name), float64(w.WeightBytes())/1e9, float64(total)/1e9)
}
