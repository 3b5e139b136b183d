package workload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const header = "arrived_at,num_prefill_tokens,num_decode_tokens\n"

func TestReadTrace(t *testing.T) {
	for name, src := range map[string]string{
		"plain":           header + "10.5,374,44\n10.5,1,1\n14.814579,396,109\n",
		"no last newline": header + "10.5,374,44\n10.5,1,1\n14.814579,396,109",
		"windows":         "\xef\xbb\xbf" + strings.ReplaceAll(header+"10.5,374,44\n10.5,1,1\n14.814579,396,109\n", "\n", "\r\n"),
		"comments":        "# origin\n" + header + "# a\n10.5,374,44\n\n10.5,1,1\n14.814579,396,109\n# end\n",
		"quotes":          header + "\"10.5\",374,44\n1.05e1,1,1\n14.814579,396,\"109\"\n",
	} {
		got, err := ReadTrace("x.csv", strings.NewReader(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &Trace{ArrivedNs: []int64{0, 0, 4_314_579_000}, Prompt: []int32{374, 1, 396}, Output: []int32{44, 1, 109}, Digest: got.Digest}
		if diff := cmp.Diff(want, got); diff != "" || len(got.Digest) != 32 {
			t.Errorf("%s (-want +got), digest %q:\n%s", name, got.Digest, diff)
		}
	}
}

func TestDigestIsOfTheWholeFile(t *testing.T) {
	a, _ := ReadTrace("x", strings.NewReader(header+"1,2,3\n"))
	b, _ := ReadTrace("y", iotest.OneByteReader(strings.NewReader(header+"1,2,3\n")))
	c, _ := ReadTrace("x", strings.NewReader(header+"1,2,3\n# more\n"))
	if a.Digest != b.Digest || a.Digest == c.Digest {
		t.Errorf("digests %s, %s of the same bytes and %s of others", a.Digest, b.Digest, c.Digest)
	}
}

func TestWhatIsWrongWithATrace(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "x.csv:1: has no header\n  fix: the first line must be arrived_at,num_prefill_tokens,num_decode_tokens"},
		{"# only\n", "x.csv:1: has no header"},
		{"time,in,out\n1,2,3\n", `x.csv:1: the header is "time,in,out"`},
		{"1,2,3\n", `x.csv:1: the header is "1,2,3"`},
		{header, "x.csv:1: holds no request"},
		{"#\n" + header, "x.csv:2: holds no request"},
		{header + "1,2\n", "x.csv:2: has 2 fields, the header 3"},
		{header + "1,2,3\n1,2,3,4\n", "x.csv:3: has 4 fields, the header 3"},
		{header + "x,2,3\n", `x.csv:2:1: arrived_at: must be a number of seconds, got "x"`},
		{header + "1,2,3\n0.5,2,3\n", "x.csv:3:1: arrived_at: 0.5 comes after 1: requests must stand in order of arrival"},
		{header + "-1,2,3\n", "x.csv:2:1: arrived_at: must be from 0 to 3e+09 seconds, got -1"},
		{header + "NaN,2,3\n", `x.csv:2:1: arrived_at: must be a number of seconds, got "NaN"`},
		{header + "1e300,2,3\n", "x.csv:2:1: arrived_at: must be from 0 to"},
		{header + "1,2.5,3\n", `x.csv:2:3: num_prefill_tokens: must be a whole number of tokens, got "2.5"`},
		{header + "1,0,3\n", "x.csv:2:3: num_prefill_tokens: must be from 1 to 10000000 tokens, got 0"},
		{header + "1,2,99999999\n", "x.csv:2:5: num_decode_tokens: must be from 1 to 10000000 tokens, got 99999999"},
		{header + "1,2,3\n\n1,2, 3\n", `x.csv:4:5: num_decode_tokens: must be a whole number of tokens, got " 3"`},
		{header + "1,\"2,3\n", "x.csv:2:8: not CSV: "},
	} {
		_, err := ReadTrace("x.csv", strings.NewReader(c.src))
		var file *FileError
		if !errors.As(err, &file) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", c.src, err, c.want)
		}
	}
	broken := io.MultiReader(strings.NewReader(header), iotest.ErrReader(errors.New("disk on fire")))
	if _, err := ReadTrace("x.csv", broken); err == nil || err.Error() != "read x.csv: disk on fire" {
		t.Errorf("got %v, want what the disk says", err)
	}
}

func TestReadLengths(t *testing.T) {
	for _, src := range []string{"num_prefill_tokens,num_decode_tokens\n5,1\n7,9\n", header + "3,5,1\n4,7,9\n"} {
		l, digest, err := ReadLengths("x.csv", strings.NewReader(src))
		if err != nil || digest == "" || !l.Paired || !slices.Equal(l.Prompt.Values, []int32{5, 7}) || !slices.Equal(l.Output.Values, []int32{1, 9}) ||
			l.Prompt.Min != 5 || l.Output.Max != 9 {
			t.Errorf("%q: %+v, %v", src, l, err)
		}
	}
	_, _, err := ReadLengths("x.csv", strings.NewReader("a\n"))
	if err == nil || !strings.Contains(err.Error(), "must be num_prefill_tokens,num_decode_tokens or arrived_at,") {
		t.Errorf("got %v", err)
	}
}

// The excerpts are the first requests of traces that others use as well.
func TestExcerptsOfTheAzureTraces(t *testing.T) {
	for name, want := range map[string]string{
		"conv": "200 requests in 61.3 s, 180695 in, 47050 out",
		"code": "200 requests in 199.1 s, 414215 in, 4907 out",
	} {
		f, err := os.Open("testdata/azure_2023_" + name + "_200.csv")
		if err != nil {
			t.Fatal(err)
		}
		tr, err := ReadTrace(f.Name(), f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		in, out := 0, 0
		for i := range tr.Prompt {
			in, out = in+int(tr.Prompt[i]), out+int(tr.Output[i])
		}
		if got := fmt.Sprintf("%d requests in %.1f s, %d in, %d out", tr.Len(), float64(tr.ArrivedNs[tr.Len()-1])/1e9, in, out); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Whatever the bytes, there is a trace that keeps its promises and reads back
// as it is, or an error with a place in the file.
func FuzzReadTrace(f *testing.F) {
	for _, src := range []string{"", header, header + "0,1,2\n0.5,3,4\n", "# x\n" + header + "\"1\",1,2\n", header + "1,\"2\n", "num_prefill_tokens,num_decode_tokens\n1,2\n",
		header + "1e9,1,10000000\n3e9,1,1\n", "\xef\xbb\xbf" + header + "1,1,1\r\n"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		checkRead(t, src)
		if l, _, err := ReadLengths("f", strings.NewReader(src)); err != nil {
			checkPlace(t, src, err)
		} else if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

func checkRead(t *testing.T, src string) {
	tr, err := ReadTrace("f", strings.NewReader(src))
	if err != nil {
		checkPlace(t, src, err)
		return
	}
	var again strings.Builder
	again.WriteString(header)
	for i, at := range tr.ArrivedNs {
		if i == 0 && at != 0 || i > 0 && at < tr.ArrivedNs[i-1] || tr.Prompt[i] < 1 || tr.Output[i] < 1 {
			t.Fatalf("row %d is %d ns, %d, %d", i, at, tr.Prompt[i], tr.Output[i])
		}
		fmt.Fprintf(&again, "%d.%09d,%d,%d\n", at/1e9, at%1e9, tr.Prompt[i], tr.Output[i])
	}
	back, err := ReadTrace("f", strings.NewReader(again.String()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.ArrivedNs { // beyond 2^53 ns a float64 of seconds rounds
		if d := back.ArrivedNs[i] - tr.ArrivedNs[i]; d > 1000 || d < -1000 {
			t.Fatalf("row %d comes back %d ns off", i, d)
		}
	}
	if !slices.Equal(back.Prompt, tr.Prompt) || !slices.Equal(back.Output, tr.Output) {
		t.Fatal("other lengths come back")
	}
	a := Arrivals{Process: Recorded, Trace: tr, Repeat: 2}
	if a.Validate() != nil {
		return
	}
	s := NewStream(&a, &Mix{Classes: []Class{{Share: 1}}}, 1, 0)
	n, last := 0, int64(0)
	for r, ok := s.Next(); ok; r, ok = s.Next() {
		if r.ArrivalNs < last {
			t.Fatalf("request %d arrives at %d after one at %d", n, r.ArrivalNs, last)
		}
		n, last = n+1, r.ArrivalNs
	}
	if n != 2*tr.Len() {
		t.Fatalf("%d requests of a trace of %d that plays twice", n, tr.Len())
	}
}

func checkPlace(t *testing.T, src string, err error) {
	var file *FileError
	if !errors.As(err, &file) {
		t.Fatalf("no place: %v", err)
	}
	if file.Line < 1 || file.Line > strings.Count(src, "\n")+1 || file.Msg == "" || file.Column < 0 {
		t.Fatalf("no such place: %#v", file)
	}
}
