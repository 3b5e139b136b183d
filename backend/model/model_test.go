package model

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func randomToy(t testing.TB, family string, dtype Dtype) *Model {
	t.Helper()
	m, err := Random(t.Context(), Toy(family), dtype, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameWeights compares names, shapes and bits.
func sameWeights(t *testing.T, got, want *Model) {
	t.Helper()
	a, b := got.Tensors(), want.Tensors()
	if len(a) != len(b) {
		t.Fatalf("%d tensors, want %d", len(a), len(b))
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Dtype != b[i].Dtype || !slices.Equal(a[i].Shape, b[i].Shape) ||
			string(a[i].raw()) != string(b[i].raw()) {
			t.Errorf("%s %s %v differs from %s %s %v", a[i].Name, a[i].Dtype, a[i].Shape, b[i].Name, b[i].Dtype, b[i].Shape)
		}
	}
}

func TestSaveOpen(t *testing.T) {
	for _, family := range []string{"qwen3", "llama"} {
		for _, dtype := range []Dtype{BF16, F16, F32} {
			for _, shard := range []int64{0, 1, 50_000} {
				made := randomToy(t, family, dtype)
				made.Generation = Generation{EOS: []int32{7, 3}, DoSample: true, Temperature: 0.6, TopK: 20, TopP: 0.95}
				dir := filepath.Join(t.TempDir(), family)
				if err := made.SaveSharded(dir, shard); err != nil {
					t.Fatal(err)
				}
				read, err := Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				sameWeights(t, read, made)
				want := *made.Config
				want.Name = filepath.Join(dir, configName)
				if *read.Config != want {
					t.Errorf("%s: config %+v\nwant %+v", family, *read.Config, want)
				}
				if g := read.Generation; !slices.Equal(g.EOS, []int32{7, 3}) || g.TopK != 20 || g.TopP != 0.95 || !g.DoSample {
					t.Errorf("generation %+v", g)
				}
				if err := read.SaveSharded(dir, shard); err == nil || !strings.Contains(err.Error(), "is there already") {
					t.Errorf("saved over itself: %v", err)
				}
				if err := read.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
