package steptime

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

var bench = Meta{
	Name: "bench.csv", Origin: "our own machine", Licence: "Apache-2.0", Engine: "sglang", EngineVersion: "0.5.10",
	GPU: "a100-80gb", Model: "qwen3-8b", TP: 2,
}

func TestImportTwoColumns(t *testing.T) {
	p, err := Import(strings.NewReader("\ufeffms, requests\n10,1\n12,4\n14,4\n40,4\n"), bench)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Compile()
	for _, c := range []struct {
		requests, rows, context int
		want                    int64
	}{
		{1, 1, 0, 10e6}, {4, 4, 9000, 14e6}, {2, 2, 5, 11_333_333}, // the median, and context does not matter
		{1, 4, 5, 14e6}, // extra rows like as many requests
	} {
		if got := st.Ns(c.requests, c.rows, c.context); got != c.want {
			t.Errorf("(%d, %d, %d): %d ns, want %d", c.requests, c.rows, c.context, got, c.want)
		}
	}
	if !p.InRange(4, 4, 100000) || p.InRange(5, 5, 0) || p.TP != 2 || !strings.Contains(p.Notes, "Assumed") {
		t.Errorf("made %+v", p)
	}
	roundTrip(t, p)
}

func TestImportRowsAndContext(t *testing.T) {
	var b strings.Builder
	b.WriteString("context,rows,requests,ms\n")
	for _, line := range []string{
		"64,1,1,1.0", "64,11,1,2", "512,1,1,1.5", "512,11,1,3",
		"64,2,2,1.25", "64,12,2,2.5", "512,2,2,2", "512,12,2,4",
	} {
		b.WriteString(line + "\n\n")
	}
	p, err := Import(strings.NewReader(b.String()), bench)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Compile()
	for _, c := range []struct {
		requests, rows, context int
		want                    int64
	}{{1, 1, 64, 1e6}, {1, 11, 512, 3e6}, {2, 12, 1024, 4e6}, {2, 7, 128, 1_875_000}} {
		if got := st.Ns(c.requests, c.rows, c.context); got != c.want {
			t.Errorf("(%d, %d, %d): %d ns, want %d", c.requests, c.rows, c.context, got, c.want)
		}
	}
	if p.Rows != nil || p.Valid.Rows != [2]int{1, 12} || p.Valid.ContextTokens != [2]int{64, 512} {
		t.Errorf("made %+v", p)
	}
	roundTrip(t, p)
}

func TestImportRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "bench.csv: is empty"},
		{"requests,ms\n", "bench.csv:1: is followed by no measurement"},
		{"requests,tokens,ms,gpu\n1,2,3,4\n", `bench.csv:1: columns "tokens", "gpu" are not known; use requests, rows, context and ms`},
		{"requests,context\n1,2\n", "bench.csv:1: column ms is missing"},
		{"requests,ms,ms\n1,2,3\n", "bench.csv:1: column ms appears twice"},
		{"requests,ms\n1,2\n2\n", "bench.csv:3: has 1 fields, the first line 2"},
		{"requests,ms\n1,2\n\nx,2\n", `bench.csv:4: requests is "x"; want a whole number from 1`},
		{"requests,ms\n0,2\n", `bench.csv:2: requests is "0"`},
		{"requests,ms\n1.5,2\n", `bench.csv:2: requests is "1.5"`},
		{"requests,ms\n1,fast\n", `bench.csv:2: ms is "fast"; want a time in ms`},
		{"requests,ms\n1,-2\n", "bench.csv:2: ms is negative"},
		{"requests,ms\n1,NaN\n", "bench.csv:2: ms is not a number"},
		{"requests,context,ms\n1,-1,2\n", `bench.csv:2: context is "-1"; want a whole number from 0`},
		{"requests,rows,ms\n4,3,2\n", "bench.csv:2: rows is 3 with 4 requests"},
		{"requests,ms\n1,\"2\n", "bench.csv:2: not CSV: "},
		{"requests,ms\n2,2\n", "bench.csv: has no step of one request and one row"},
		{"requests,context,ms\n1,64,1\n1,512,2\n4,64,1\n8,64,2\n",
			"bench.csv: 2 points of the grid are missing: requests 4 context 512; requests 8 context 512."},
		{"requests,rows,ms\n1,1,1\n1,9,2\n2,2,2\n", "bench.csv: 1 points of the grid are missing: requests 2 rows 10."},
		{"requests,ms\n1,0\n", "bench.csv: makes no profile: table.ms[0][0] is 0"},
	} {
		_, err := Import(strings.NewReader(c.text), bench)
		var wrong *ImportError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %q", c.text, err, c.want)
		}
	}
	meta := bench
	meta.Licence = ""
	if _, err := Import(strings.NewReader("requests,ms\n1,2\n"), meta); err == nil || !strings.Contains(err.Error(), "licence is empty") {
		t.Errorf("without a licence: %v", err)
	}
}

// FuzzImport holds that any text is refused with an error that names the file, or
// makes a profile that can be written, read back and compiled.
func FuzzImport(f *testing.F) {
	f.Add("requests,ms\n1,2\n4,3\n")
	f.Add("context,rows,requests,ms\n64,1,1,1\n64,2,1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Import(strings.NewReader(text), bench)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "bench.csv") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		var b bytes.Buffer
		if err := WriteTOML(&b, p); err != nil {
			t.Fatal(err)
		}
		back, err := parse("bench.toml", b.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if a, b := p.Compile().Ns(3, 5, 700), back.Compile().Ns(3, 5, 700); a != b || a < 1 {
			t.Fatalf("%d ns before, %d ns after writing", a, b)
		}
	})
}
