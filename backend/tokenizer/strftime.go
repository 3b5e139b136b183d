package tokenizer

import (
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// strftime are Python's directives that templates print dates with, in Go's
// notation. A - after the percent sign leaves out the leading zero.
var strftime = map[string]string{
	"d": "02", "-d": "2", "m": "01", "-m": "1", "y": "06", "Y": "2006", "b": "Jan", "B": "January",
	"a": "Mon", "A": "Monday", "H": "15", "I": "03", "-I": "3", "M": "04", "S": "05", "p": "PM", "j": "002",
	"F": "2006-01-02", "T": "15:04:05", "Z": "MST", "z": "-0700", "%": "%",
}

// strftimeAt returns a template's strftime_now.
func strftimeAt(now time.Time) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), fmt.Errorf("strftime_now takes one format")
		}
		at := now
		if at.IsZero() {
			at = time.Now().UTC()
		}
		var out strings.Builder
		format := args[0].AsString()
		for {
			plain, rest, found := strings.Cut(format, "%")
			out.WriteString(plain)
			if !found {
				return jinja.NewString(out.String()), nil
			}
			n := 1
			if strings.HasPrefix(rest, "-") {
				n = 2
			}
			if len(rest) < n || strftime[rest[:n]] == "" {
				return jinja.Undefined(), fmt.Errorf("strftime_now: the directive in %q is not supported", short("%"+rest))
			}
			out.WriteString(at.Format(strftime[rest[:n]]))
			format = rest[n:]
		}
	}
}
