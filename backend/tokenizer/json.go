package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// unmarshal is json.Unmarshal whose errors know no types of Go.
func unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want := "an object"
	switch wrong.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int32:
		want = "a whole number"
	case reflect.String:
		want = "a string"
	case reflect.Slice:
		want = "a list"
	}
	what := fmt.Sprintf("is a JSON %s; want %s", wrong.Value, want)
	if wrong.Field != "" {
		what = wrong.Field + " " + what
	}
	return errors.New(what)
}
