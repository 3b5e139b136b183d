package main

import (
	"encoding/json"
	"math"
)

// jsonObject is an object whose members stay in the order in which they are
// added, as people read them.
type jsonObject struct{ members []byte }

func (o *jsonObject) add(name string, value any) {
	if o.members != nil {
		o.members = append(o.members, ',')
	}
	o.members = append(append(o.members, mustJSON(name)...), ':')
	o.members = append(o.members, mustJSON(value)...)
}

func (o *jsonObject) text() json.RawMessage {
	return append(append([]byte{'{'}, o.members...), '}')
}

// mustJSON writes what cannot fail.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("tokenrouter: plain values are no JSON: " + err.Error())
	}
	return text
}

// number is a figure for JSON, which has no NaN: nil.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
