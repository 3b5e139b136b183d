package steptime

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// roundTrip writes and reads a profile.
func roundTrip(t rapid.TB, p *Profile) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteTOML(&b, p); err != nil {
		t.Fatal(err)
	}
	back, err := parse(p.Name, b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if diff := cmp.Diff(p, back, cmp.AllowUnexported(Cells{})); diff != "" {
		t.Fatalf("came back otherwise (- written, + read):\n%s\n%s", diff, b.String())
	}
}

func TestShippedRoundTrip(t *testing.T) {
	for _, name := range Names() {
		roundTrip(t, load(t, name))
	}
}

func TestDrawnRoundTrip(t *testing.T) {
	text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("\"'\\\n\r\t\x00\x7f# =[]{}a")), rapid.Rune()))
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t)
		p.Origin, p.Notes = "o"+text.Draw(t, "origin"), "n"+text.Draw(t, "notes")
		p.Variant = rapid.SampledFrom([]string{"", VariantGraphs, VariantEager}).Draw(t, "variant")
		p.CPU.SerialMs = rapid.Float64Range(0, msMax).Draw(t, "serial")
		p.Table.Ms.Values[0][0][0] = rapid.Float64Range(1e-6, 1e6).Draw(t, "ms")
		if p.Check() != nil { // that time may be too steep for its neighbour
			t.Skip()
		}
		roundTrip(t, p)
	})
}

func TestWriteRefuses(t *testing.T) {
	p := *load(t, Names()[0])
	p.TP = 0
	var b bytes.Buffer
	if err := WriteTOML(&b, &p); err == nil || !strings.Contains(err.Error(), "tp is 0") || b.Len() > 0 {
		t.Errorf("%v, wrote %q", err, b.String())
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.0", 1: "1.0", 25.5: "25.5", 1e-6: "0.000001", 1e-12: "1.0e-12", 1.5e-300: "1.5e-300", 1e20: "1.0e+20",
	} {
		if got := number(x); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}
