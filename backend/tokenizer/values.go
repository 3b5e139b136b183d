package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/ardanlabs/jinja"
)

// maxNesting bounds what a client may nest in its messages and tools, since
// values are read and walked recursively. Schemas of real tools stay below 20.
const maxNesting = 100

// decodeValue reads JSON into a template's values. Objects keep the order of
// their keys, which templates print: Go's own maps lose it, and a model was
// trained on tools in the order in which their authors wrote them.
func decodeValue(text []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := nextValue(d, 0)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); err != io.EOF {
		return v, fmt.Errorf("more after the JSON value")
	}
	return v, nil
}

func nextValue(d *json.Decoder, depth int) (jinja.Value, error) {
	token, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	switch token := token.(type) {
	case bool:
		return jinja.NewBool(token), nil
	case string:
		return jinja.NewString(token), nil
	case json.Number:
		return numberValue(token)
	case json.Delim:
		if depth == maxNesting {
			return jinja.None(), fmt.Errorf("nested deeper than %d", maxNesting)
		}
		if token == '[' {
			return nextList(d, depth+1)
		}
		return nextDict(d, depth+1)
	}
	return jinja.None(), nil
}

func numberValue(n json.Number) (jinja.Value, error) {
	if !strings.ContainsAny(n.String(), ".eE") {
		if i, err := n.Int64(); err == nil {
			return jinja.NewInt(i), nil
		}
	}
	f, err := n.Float64()
	if err != nil {
		return jinja.None(), fmt.Errorf("the number %s is out of range", short(n.String()))
	}
	return jinja.NewFloat(f), nil
}

func nextList(d *json.Decoder, depth int) (jinja.Value, error) {
	var items []jinja.Value
	for d.More() {
		v, err := nextValue(d, depth)
		if err != nil {
			return v, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return jinja.NewList(items), err
}

func nextDict(d *json.Decoder, depth int) (jinja.Value, error) {
	dict := jinja.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return dict, err
		}
		v, err := nextValue(d, depth)
		if err != nil {
			return dict, err
		}
		dict.AsDict().Set(key.(string), v)
	}
	_, err := d.Token()
	return dict, err
}

// mapStrings returns a copy of v in which every string, keys of objects
// included, went through change.
func mapStrings(v jinja.Value, change func(string) string) jinja.Value {
	switch {
	case v.IsString():
		return jinja.NewString(change(v.AsString()))
	case v.IsList():
		items := make([]jinja.Value, 0, v.AsList().Len())
		for _, item := range v.AsList().Items {
			items = append(items, mapStrings(item, change))
		}
		return jinja.NewList(items)
	case v.IsDict():
		out := jinja.NewDict()
		for _, key := range v.AsDict().OrderedKeys() {
			item, _ := v.AsDict().Get(key)
			out.AsDict().Set(change(key), mapStrings(item, change))
		}
		return out
	}
	return v
}
