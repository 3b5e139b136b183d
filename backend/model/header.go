package model

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
)

// headerMax bounds a header as the format's own library does.
const headerMax = 100_000_000

// entry is one tensor of a safetensors header.
type entry struct {
	name       string
	dtype      Dtype
	shape      []int
	begin, end int // bytes of the file
}

// parseFile reads the header of a safetensors file and checks that its tensors
// fill the file to the last byte, in any order, without a hole or an overlap.
// It returns them as they lie. Errors do not name the file.
//
// The format: 8 bytes with the header's length, little-endian; the header, a
// JSON object {NAME: {dtype, shape, data_offsets}, …} perhaps with strings under
// "__metadata__"; the data, from where offsets count.
func parseFile(data []byte) ([]entry, error) {
	if bytes.HasPrefix(data, []byte("version https://git-lfs")) {
		return nil, fmt.Errorf("is a Git LFS pointer, not the weights: run git lfs pull")
	}
	if len(data) < 8 {
		return nil, fmt.Errorf("has %d bytes, too few for a safetensors file: download it again", len(data))
	}
	length := binary.LittleEndian.Uint64(data)
	switch {
	case length > headerMax:
		return nil, fmt.Errorf("does not start like a safetensors file: a header of %d bytes is stated, at most %d are read", length, headerMax)
	case length > uint64(len(data)-8):
		return nil, fmt.Errorf("is cut short: its header has %d bytes, the file only %d: download it again", length, len(data))
	}
	start := 8 + int(length)
	entries, err := parseHeader(data[8:start])
	if err != nil {
		return nil, err
	}
	return entries, place(entries, start, len(data))
}

// parseHeader reads the JSON token by token: a map would hide a name that
// appears twice.
func parseHeader(text []byte) ([]entry, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("has a header that is not a JSON object: download it again")
	}
	var entries []entry
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("has a header that is not JSON: %w", err)
		}
		name := t.(string) // the decoder takes nothing else for a key
		if name == "__metadata__" {
			var texts map[string]string
			if err := d.Decode(&texts); err != nil {
				return nil, fmt.Errorf("has a header whose __metadata__ is not an object of strings: %w", err)
			}
			continue
		}
		if seen[name] {
			return nil, fmt.Errorf("tensor %s is in the header twice", name)
		}
		seen[name] = true
		e, err := parseEntry(name, d)
		if err != nil {
			return nil, fmt.Errorf("tensor %s %w", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("has a header that is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("has text after the header's JSON object")
	}
	return entries, nil
}

// parseEntry leaves offsets as they are stated: from the start of the data.
func parseEntry(name string, d *json.Decoder) (entry, error) {
	var f struct {
		Dtype   *string `json:"dtype"`
		Shape   *[]int  `json:"shape"`
		Offsets *[]int  `json:"data_offsets"`
	}
	if err := d.Decode(&f); err != nil {
		return entry{}, fmt.Errorf("has a header entry that cannot be read: %w", err)
	}
	if f.Dtype == nil || f.Shape == nil || f.Offsets == nil || len(*f.Offsets) != 2 {
		return entry{}, fmt.Errorf("lacks one of dtype, shape and two data_offsets in the header")
	}
	e := entry{name, dtypeOf(*f.Dtype), *f.Shape, (*f.Offsets)[0], (*f.Offsets)[1]}
	if e.dtype == 0 {
		return entry{}, fmt.Errorf("has dtype %s; supported are BF16, F16 and F32: convert the model without quantisation", *f.Dtype)
	}
	if e.begin < 0 || e.end < e.begin {
		return entry{}, fmt.Errorf("has data_offsets %d to %d", e.begin, e.end)
	}
	size := uint64(e.dtype.Size())
	for _, n := range e.shape {
		high, low := bits.Mul64(size, uint64(max(n, 0)))
		if n < 0 || high != 0 {
			return entry{}, fmt.Errorf("has shape %s, which no file can hold", shapeText(e.shape))
		}
		size = low
	}
	if size != uint64(e.end-e.begin) {
		return entry{}, fmt.Errorf("has %d bytes, but its shape %s of %s takes %d", e.end-e.begin, shapeText(e.shape), e.dtype, size)
	}
	return e, nil
}

// place turns offsets into those of the file and checks how the tensors lie.
func place(entries []entry, start, size int) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), strings.Compare(a.name, b.name))
	})
	end, before := 0, "the header"
	for i := range entries {
		e := &entries[i]
		switch {
		case e.begin < end:
			return fmt.Errorf("tensor %s overlaps %s by %d bytes", e.name, before, end-e.begin)
		case e.begin > end:
			return fmt.Errorf("has a hole of %d bytes between %s and tensor %s", e.begin-end, before, e.name)
		case e.end > size-start:
			return fmt.Errorf("is cut short: tensor %s ends at byte %d of the data, of which there are %d: download it again", e.name, e.end, size-start)
		}
		end, before = e.end, "tensor "+e.name
		e.begin, e.end = start+e.begin, start+e.end
	}
	if start+end != size {
		return fmt.Errorf("has %d bytes after %s that belong to no tensor", size-start-end, before)
	}
	return nil
}
