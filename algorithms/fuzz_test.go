package algorithms

import (
	"errors"
	"testing"
)

// FuzzScript: any text is a script that is replayed letter by letter, or a
// refusal of the scripts.
func FuzzScript(f *testing.F) {
	for _, s := range []string{"SSS", "SLSL", "LLLL", "0120", "", "X", "S9", "Slé"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, script string, models int) {
		models = 2 + int(uint(models)%12)
		s, err := NewScript([]string{script}, Pair{Small: 0, Large: 1}, models, 100)
		if err != nil {
			if fe, ok := errors.AsType[*FieldError](err); !ok || fe.Field != "scripts" || s != nil {
				t.Fatalf("%q: %v, %v", script, s, err)
			}
			return
		}
		var got []int
		walk(s, 0, 0, len(script), func(w int) { got = append(got, w) })
		for i, letter := range []byte(script) {
			want := int(letter - '0')
			switch letter {
			case 'S':
				want = 0
			case 'L':
				want = 1
			}
			if got[i] != want {
				t.Fatalf("%q: token %d written by %d", script, i, got[i])
			}
		}
	})
}
