package steptime

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteTOML writes the profile as a file that [LoadFile] reads back to the same
// profile, every number exactly. A profile that fails [Profile.Check] is an
// error.
func WriteTOML(w io.Writer, p *Profile) error {
	if err := p.Check(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "origin         = %s\n", quoted(p.Origin))
	fmt.Fprintf(&b, "licence        = %s\n", quoted(p.Licence))
	fmt.Fprintf(&b, "engine         = %s\n", quoted(p.Engine))
	fmt.Fprintf(&b, "engine_version = %s\n", quoted(p.EngineVersion))
	fmt.Fprintf(&b, "gpu            = %s\n", quoted(p.GPU))
	fmt.Fprintf(&b, "model          = %s\n", quoted(p.Model))
	fmt.Fprintf(&b, "tp             = %d\n", p.TP)
	if p.Variant != "" {
		fmt.Fprintf(&b, "variant        = %s\n", quoted(p.Variant))
	}
	fmt.Fprintf(&b, "notes = %s\n", quotedLines(p.Notes))
	fmt.Fprintf(&b, "\n[valid]\nrequests       = [%d, %d]\nrows           = [%d, %d]\ncontext_tokens = [%d, %d] # per request\n",
		p.Valid.Requests[0], p.Valid.Requests[1], p.Valid.Rows[0], p.Valid.Rows[1],
		p.Valid.ContextTokens[0], p.Valid.ContextTokens[1])
	fmt.Fprintf(&b, "\n# A step takes max(GPU time, launch_ms) + serial_ms.\n[cpu]\nlaunch_ms = %s\nserial_ms = %s\n",
		number(p.CPU.LaunchMs), number(p.CPU.SerialMs))
	p.writeTable(&b)
	if p.Rows != nil {
		b.WriteString("\n# Rows beyond one per request add (ms at all rows - ms at as many rows as requests) and their attention.\n[rows]\n")
		rows, ms := counts(p.Rows.Rows), numbers(p.Rows.Ms)
		align(rows, ms)
		fmt.Fprintf(&b, "rows = [%s]\nms   = [%s]\n", strings.Join(rows, ", "), strings.Join(ms, ", "))
		fmt.Fprintf(&b, "attention_ns_per_row_token = %s\n", number(p.Rows.AttentionNsPerRowToken))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Profile) writeTable(b *strings.Builder) {
	t := &p.Table
	b.WriteString("\n# GPU time with one row per request: a line for each number of requests, a column for each context of one request.\n")
	if len(t.ExtraRows) > 0 {
		b.WriteString("# Inside a line for each number of requests: one for each number of extra rows (rows beyond one per request).\n")
	}
	fmt.Fprintf(b, "[table]\nrequests       = [%s]\n", strings.Join(counts(t.Requests), ", "))
	if len(t.ExtraRows) > 0 {
		fmt.Fprintf(b, "extra_rows     = [%s]\n", strings.Join(counts(t.ExtraRows), ", "))
	}
	fmt.Fprintf(b, "context_tokens = [%s]\nms = [\n", strings.Join(counts(t.ContextTokens), ", "))
	var lines [][]string
	for _, middle := range t.Ms.Values {
		for _, line := range middle {
			lines = append(lines, numbers(line))
		}
	}
	align(lines...)
	at := 0
	for _, middle := range t.Ms.Values {
		if t.Ms.flat {
			fmt.Fprintf(b, "  [%s],\n", strings.Join(lines[at], ", "))
			at++
			continue
		}
		b.WriteString("  [\n")
		for range middle {
			fmt.Fprintf(b, "    [%s],\n", strings.Join(lines[at], ", "))
			at++
		}
		b.WriteString("  ],\n")
	}
	b.WriteString("]\n")
}

func counts(values []int) []string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = strconv.Itoa(value)
	}
	return out
}

func numbers(values []float64) []string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = number(value)
	}
	return out
}

// decimals are what most tables hold: numbers are padded to as many, so that
// columns line up.
const decimals = 3

// number is the shortest text that reads back as exactly x, in TOML a float.
func number(x float64) string {
	if x != 0 && (math.Abs(x) < 1e-9 || math.Abs(x) >= 1e15) {
		text := strconv.FormatFloat(x, 'e', -1, 64)
		if !strings.Contains(text, ".") {
			text = strings.Replace(text, "e", ".0e", 1)
		}
		return text
	}
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// align pads the columns of several lines to the same width, and their numbers
// to the same decimals where the lines have some.
func align(lines ...[]string) {
	width := 0
	for _, line := range lines {
		for i, text := range line {
			if _, fraction, ok := strings.Cut(text, "."); ok && len(fraction) < decimals && !strings.Contains(text, "e") {
				line[i] += strings.Repeat("0", decimals-len(fraction))
			}
			width = max(width, len(line[i]))
		}
	}
	for _, line := range lines {
		for i, text := range line {
			line[i] = strings.Repeat(" ", width-len(text)) + text
		}
	}
}

// quoted is a TOML basic string.
func quoted(text string) string { return `"` + escaped(text, "\"\\\n\t") + `"` }

// quotedLines is a TOML string over several lines: quotes, tabs and line ends
// stand as they are, except where three quotes would end it.
func quotedLines(text string) string {
	return "\"\"\"\n" + strings.ReplaceAll(escaped(text, "\\"), `"""`, `""\"`) + lastQuote(text) + "\"\"\""
}

// lastQuote keeps a quote at the end of the text from joining the closing ones:
// an escaped line end, which reads as nothing.
func lastQuote(text string) string {
	if strings.HasSuffix(text, `"`) {
		return "\\\n"
	}
	return ""
}

// escaped escapes the given characters and what TOML allows in no string. Bytes
// that are not UTF-8 become the replacement character.
func escaped(text, special string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case strings.ContainsRune(special, r) && r == '\n':
			b.WriteString(`\n`)
		case strings.ContainsRune(special, r) && r == '\t':
			b.WriteString(`\t`)
		case strings.ContainsRune(special, r):
			b.WriteRune('\\')
			b.WriteRune(r)
		case r < ' ' && r != '\n' && r != '\t', r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
