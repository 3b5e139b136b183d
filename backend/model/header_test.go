package model

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// fileOf is a safetensors file of a header and so many bytes of data.
func fileOf(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func one(name, dtype, shape, offsets string) string {
	return `"` + name + `":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}`
}

func TestParseFile(t *testing.T) {
	header := "{" + one("b", "F32", "[1]", "[12,16]") + `,"__metadata__":{"format":"pt"},` +
		one("a", "BF16", "[2,3]", "[0,12]") + "," + one("none", "F16", "[0,9]", "[12,12]") + "}   "
	entries, err := parseFile(fileOf(header, 16))
	if err != nil {
		t.Fatal(err)
	}
	start := 8 + len(header)
	want := []entry{
		{"a", BF16, []int{2, 3}, start, start + 12},
		{"none", F16, []int{0, 9}, start + 12, start + 12},
		{"b", F32, []int{1}, start + 12, start + 16},
	}
	same := slices.EqualFunc(entries, want, func(x, y entry) bool {
		return x.name == y.name && x.dtype == y.dtype && slices.Equal(x.shape, y.shape) && x.begin == y.begin && x.end == y.end
	})
	if !same {
		t.Errorf("read %v\nwant %v", entries, want)
	}
}

func TestParseFileRefuses(t *testing.T) {
	good := one("a", "BF16", "[2,3]", "[0,12]")
	for _, c := range []struct {
		what, header string
		data         int
		want         string
	}{
		{"cut short", "{" + good + "}", 11, "is cut short: tensor a ends at byte 12 of the data, of which there are 11"},
		{"longer", "{" + good + "}", 13, "has 1 bytes after tensor a that belong to no tensor"},
		{"no tensor", "{}", 1, "has 1 bytes after the header"},
		{"overlap", "{" + good + "," + one("b", "F32", "[1]", "[8,12]") + "}", 12, "tensor b overlaps tensor a by 4 bytes"},
		{"same place", "{" + good + "," + one("b", "BF16", "[6]", "[0,12]") + "}", 12, "tensor b overlaps tensor a by 12 bytes"},
		{"hole", "{" + good + "," + one("b", "F32", "[1]", "[16,20]") + "}", 20, "a hole of 4 bytes between tensor a and tensor b"},
		{"hole at the start", "{" + one("b", "F32", "[1]", "[4,8]") + "}", 8, "a hole of 4 bytes between the header and tensor b"},
		{"twice", "{" + good + "," + good + "}", 12, "tensor a is in the header twice"},
		{"lying shape", "{" + one("a", "BF16", "[2,4]", "[0,12]") + "}", 12, "tensor a has 12 bytes, but its shape [2 4] of BF16 takes 16"},
		{"overflowing shape", "{" + one("a", "BF16", "[4294967296,4294967296]", "[0,0]") + "}", 0, "tensor a has shape [4294967296 4294967296], which"},
		{"negative shape", "{" + one("a", "BF16", "[-2,-3]", "[0,12]") + "}", 12, "tensor a has shape [-2 -3]"},
		{"broken shape", "{" + one("a", "BF16", "[1.5]", "[0,12]") + "}", 12, "tensor a has a header entry that cannot be read"},
		{"negative offset", "{" + one("a", "BF16", "[6]", "[-12,0]") + "}", 12, "tensor a has data_offsets -12 to 0"},
		{"backwards", "{" + one("a", "BF16", "[6]", "[12,0]") + "}", 12, "tensor a has data_offsets 12 to 0"},
		{"three offsets", "{" + one("a", "BF16", "[6]", "[0,6,12]") + "}", 12, "tensor a lacks one of dtype, shape and two data_offsets"},
		{"no dtype", `{"a":{"shape":[6],"data_offsets":[0,12]}}`, 12, "tensor a lacks one of dtype"},
		{"other dtype", "{" + one("a", "F8_E4M3", "[6]", "[0,6]") + "}", 6, "tensor a has dtype F8_E4M3; supported are BF16, F16 and F32"},
		{"further field", `{"a":{"dtype":"F16","shape":[0],"data_offsets":[0,0],"x":1}}`, 0, `tensor a has a header entry that cannot be read`},
		{"metadata", `{"__metadata__":{"format":1}}`, 0, "__metadata__ is not an object of strings"},
		{"a list", "[]", 0, "not a JSON object"},
		{"open", "{" + good, 12, "not JSON"},
		{"more text", "{" + good + "} {}", 12, "text after the header"},
	} {
		_, err := parseFile(fileOf(c.header, c.data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.what, err, c.want)
		}
	}
	for _, c := range []struct{ file, want string }{
		{"", "has 0 bytes"},
		{"\x02\x00\x00\x00\x00\x00\x00", "has 7 bytes"},
		{"\x02\x00\x00\x00\x00\x00\x00\x00{", "is cut short: its header has 2 bytes, the file only 9"},
		{"\xff\xff\xff\xff\xff\xff\xff\xff{}", "does not start like a safetensors file"},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"},
	} {
		if _, err := parseFile([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %s", c.file, err, c.want)
		}
	}
}

// The library reads what we write, tensor by tensor.
func TestLibraryReadsOurs(t *testing.T) {
	m := randomToy(t, "qwen3", F16)
	m.Norm = Tensor{Name: "odd", Dtype: F16, Shape: []int{3}, U16: []uint16{1, 2, 3}}
	m.Layers[1].QNorm = Tensor{Name: "wide", Dtype: F32, Shape: []int{2}, F32: []float32{1, 2}}
	file := header(wideFirst(m.Tensors()))
	for _, tensor := range wideFirst(m.Tensors()) {
		file = append(file, tensor.raw()...)
	}
	theirs, err := safetensors.Deserialize(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range m.Tensors() {
		view, ok := theirs.Tensor(tensor.Name)
		if !ok || view.DType().String() != tensor.Dtype.String() || string(view.Data()) != string(tensor.raw()) {
			t.Errorf("the library reads another %s", tensor.Name)
		}
	}
	entries, err := parseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.begin%e.dtype.Size() != 0 {
			t.Errorf("%s of %s begins at byte %d: it will be copied", e.name, e.dtype, e.begin)
		}
	}
}

// FuzzParseFile holds that whatever is accepted lies in the file, each byte of
// the data in one tensor, and that the library, if it accepts it too, finds the
// same tensors.
func FuzzParseFile(f *testing.F) {
	f.Add(fileOf("{"+one("a", "BF16", "[2,3]", "[0,12]")+","+one("b", "F32", "[1]", "[12,16]")+"}", 16))
	f.Add(fileOf("{"+one("a", "F16", "[0]", "[0,0]")+"}", 0))
	f.Add(fileOf(`{"__metadata__":{"format":"pt"}}`, 0))
	f.Add(fileOf("{"+one("a", "BF16", "[9223372036854775807,2]", "[0,9223372036854775807]")+"}", 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseFile(data)
		if err != nil {
			return
		}
		end := 8 + int(binary.LittleEndian.Uint64(data))
		theirs, libraryErr := safetensors.Deserialize(data)
		for _, e := range entries {
			if e.begin != end || e.end < e.begin {
				t.Fatalf("tensor %q lies at %d to %d, the one before ends at %d", e.name, e.begin, e.end, end)
			}
			end = e.end
			v := view(e.name, e.dtype, e.shape, data[e.begin:e.end])
			if string(v.raw()) != string(data[e.begin:e.end]) {
				t.Fatalf("the view of %q shows other bytes", e.name)
			}
			if libraryErr != nil {
				continue
			}
			if theirs, ok := theirs.Tensor(e.name); !ok || string(theirs.Data()) != string(v.raw()) {
				t.Fatalf("the library reads another %q", e.name)
			}
		}
		if end != len(data) {
			t.Fatalf("the tensors end at %d, the file at %d", end, len(data))
		}
	})
}
