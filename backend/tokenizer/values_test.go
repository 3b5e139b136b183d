package tokenizer

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/ardanlabs/jinja"
)

// generic reads JSON as encoding/json does, numbers as they are written.
func generic(t *testing.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// sameNumbers makes numbers of equal value equal.
func sameNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = sameNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = sameNumbers(v[key])
		}
	}
	return v
}

// What is read and printed again is what it was, in each layout.
func FuzzValue(f *testing.F) {
	f.Add([]byte(`{"b":[1,2.0,-3e5,null,true,{"":"\u2028é😀\"\\"}],"a":{}}`))
	f.Add([]byte(` [] `))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := decodeValue(text)
		if err != nil {
			// What is JSON is refused only for its depth and for numbers that no
			// computer holds.
			if json.Valid(text) && !strings.Contains(err.Error(), "nested") && !strings.Contains(err.Error(), "out of range") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON", text)
		}
		want := sameNumbers(generic(t, text))
		for _, layout := range []map[string]jinja.Value{
			nil, {"indent": jinja.NewInt(2)}, {"ensure_ascii": jinja.NewBool(true), "sort_keys": jinja.NewBool(true)},
		} {
			printed, err := pythonJSON(1<<20, []jinja.Value{v}, layout)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if got := sameNumbers(generic(t, []byte(printed.AsString()))); !reflect.DeepEqual(got, want) {
				t.Fatalf("%q is printed as %q", text, printed.AsString())
			}
		}
	})
}
