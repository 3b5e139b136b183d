package steptime

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Meta says of imported step times what a CSV file cannot: all fields but Variant
// and Notes are needed, a TP of 0 stands for 1.
type Meta struct {
	Name                                               string // of the file, for errors
	Origin, Licence, Engine, EngineVersion, GPU, Model string
	TP                                                 int
	Variant                                            string
	Notes                                              string
}

// An ImportError is about one line of a CSV file.
type ImportError struct {
	Name    string
	Line    int    // 0 = the file as a whole
	Column  string // "" = the whole line
	Problem string
}

func (e *ImportError) Error() string {
	at := e.Name
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Column != "" {
		return at + ": " + e.Column + " " + e.Problem
	}
	return at + ": " + e.Problem
}

// measurement is a point of the grid.
type measurement struct{ requests, extraRows, context int }

// importColumns are what a file may hold, in any order.
var importColumns = []string{"requests", "rows", "context", "ms"}

// importLinesMax bounds a file: a full grid of 64 x 64 x 64 points, ten times each.
const importLinesMax = 64 * 64 * 64 * 10

// Import reads measured step times from CSV and makes a profile of them. The
// first line names the columns, in any order: requests and ms, and if wanted rows
// (all token positions fed, at least requests; else one a request) and context
// (tokens of each request; else it does not matter). A point measured several
// times counts with its median. Every combination of the values must have been
// measured. Errors are *ImportError.
//
// Measured steps hold their CPU time already. Without rows beyond one a request,
// extra rows are priced, as an assumption, by the same table: as many requests of
// the shortest context.
func Import(r io.Reader, meta Meta) (*Profile, error) {
	if meta.Name == "" {
		meta.Name = "input"
	}
	points, err := readPoints(r, meta.Name)
	if err != nil {
		return nil, err
	}
	p := &Profile{
		Name: meta.Name, Origin: meta.Origin, Licence: meta.Licence, Engine: meta.Engine, EngineVersion: meta.EngineVersion,
		GPU: meta.GPU, Model: meta.Model, TP: max(meta.TP, 1), Variant: meta.Variant, Notes: meta.Notes,
	}
	if p.Notes == "" {
		p.Notes = "Imported: whole steps as measured, CPU time included; medians of repeated measurements.\n"
	}
	if err := p.fillTable(points, meta.Name); err != nil {
		return nil, err
	}
	if found := p.check(); found != nil {
		return nil, &ImportError{Name: meta.Name, Problem: "makes no profile: " + found.Error()}
	}
	return p, nil
}

// readPoints reads all lines.
func readPoints(r io.Reader, name string) (map[measurement][]float64, error) {
	in := bufio.NewReader(r)
	if mark, err := in.Peek(3); err == nil && string(mark) == "\ufeff" { // spreadsheets write one
		_, _ = in.Discard(3)
	}
	lines := csv.NewReader(in)
	lines.TrimLeadingSpace = true
	lines.FieldsPerRecord = -1
	lines.ReuseRecord = true
	wrong := func(err error) error {
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return &ImportError{Name: name, Line: parse.Line, Problem: "not CSV: " + parse.Err.Error()}
		}
		return &ImportError{Name: name, Problem: err.Error()}
	}
	header, err := lines.Read()
	if errors.Is(err, io.EOF) {
		return nil, &ImportError{Name: name, Problem: "is empty; the first line names the columns, as in requests,context,ms"}
	}
	if err != nil {
		return nil, wrong(err)
	}
	columns, err := importHeader(header, name)
	if err != nil {
		return nil, err
	}
	points := map[measurement][]float64{}
	for n := 0; ; n++ {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, wrong(err)
		}
		line, _ := lines.FieldPos(0)
		if n == importLinesMax {
			return nil, &ImportError{Name: name, Line: line, Problem: fmt.Sprintf("is one line too many; at most %d are read", importLinesMax)}
		}
		at, ms, bad := readPoint(record, columns)
		if bad != nil {
			bad.Name, bad.Line = name, line
			return nil, bad
		}
		points[at] = append(points[at], ms)
	}
	if len(points) == 0 {
		return nil, &ImportError{Name: name, Line: 1, Problem: "is followed by no measurement"}
	}
	return points, nil
}

// importHeader says for each field of a line which column it is.
func importHeader(header []string, name string) ([]string, error) {
	wrong := func(format string, args ...any) ([]string, error) {
		return nil, &ImportError{Name: name, Line: 1, Problem: fmt.Sprintf(format, args...)}
	}
	var columns, extra []string
	for _, field := range header {
		column := strings.ToLower(strings.TrimSpace(field))
		switch {
		case !slices.Contains(importColumns, column):
			extra = append(extra, strconv.Quote(field))
		case slices.Contains(columns, column):
			return wrong("column %s appears twice", column)
		}
		columns = append(columns, column)
	}
	if len(extra) > 0 {
		return wrong("columns %s are not known; use requests, rows, context and ms, and remove the others", strings.Join(extra, ", "))
	}
	for _, needed := range []string{"requests", "ms"} {
		if !slices.Contains(columns, needed) {
			return wrong("column %s is missing; the first line names the columns, as in requests,context,ms", needed)
		}
	}
	return columns, nil
}

// readPoint reads one line. The error lacks the file and the line.
func readPoint(record, columns []string) (at measurement, ms float64, bad *ImportError) {
	wrong := func(column, format string, args ...any) (measurement, float64, *ImportError) {
		return measurement{}, 0, &ImportError{Column: column, Problem: fmt.Sprintf(format, args...)}
	}
	if len(record) != len(columns) {
		return wrong("", "has %d fields, the first line %d", len(record), len(columns))
	}
	rows := -1
	for i, column := range columns {
		text := strings.TrimSpace(record[i])
		if column == "ms" {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return wrong(column, "is %q; want a time in ms", text)
			}
			if _, err := unitsFromMs(x); err != nil {
				return wrong(column, "%s", err)
			}
			ms = x
			continue
		}
		least, most, to := 1, countMax, &at.requests
		switch column {
		case "context":
			least, most, to = 0, contextMax, &at.context
		case "rows":
			to = &rows
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return wrong(column, "is %q; want a whole number from %d to %d", text, least, most)
		}
		*to = n
	}
	if rows >= 0 {
		if rows < at.requests {
			return wrong("rows", "is %d with %d requests; every request feeds at least one", rows, at.requests)
		}
		at.extraRows = rows - at.requests
	}
	return at, ms, nil
}

// fillTable puts the medians on a grid.
func (p *Profile) fillTable(points map[measurement][]float64, name string) error {
	var requests, extras, contexts []int
	for at := range points { // order: sorted below
		requests, extras, contexts = append(requests, at.requests), append(extras, at.extraRows), append(contexts, at.context)
	}
	for _, axis := range []*[]int{&requests, &extras, &contexts} {
		slices.Sort(*axis)
		*axis = slices.Compact(*axis)
		if len(*axis) > axisMax {
			return &ImportError{Name: name, Problem: fmt.Sprintf(
				"has %d values of one column, %d at most; measure a coarser grid", len(*axis), axisMax)}
		}
	}
	if requests[0] != 1 || extras[0] != 0 {
		return &ImportError{Name: name, Problem: "has no step of one request and one row; measure that too"}
	}
	values, missing := make([][][]float64, len(requests)), []string(nil)
	for i, r := range requests {
		for _, e := range extras {
			var line []float64
			for _, c := range contexts {
				times := points[measurement{r, e, c}]
				if len(times) == 0 {
					missing = append(missing, cellName(r, r+e, c, len(extras) > 1, len(contexts) > 1))
					continue
				}
				line = append(line, median(times))
			}
			values[i] = append(values[i], line)
		}
	}
	if len(missing) > 0 {
		return &ImportError{Name: name, Problem: missingText(missing)}
	}
	last := len(requests) - 1
	p.Table = Table{Requests: requests, ContextTokens: contexts, Ms: Cells{Values: values, flat: len(extras) == 1}}
	p.Valid = Range{
		Requests:      [2]int{1, requests[last]},
		Rows:          [2]int{1, requests[last] + extras[len(extras)-1]},
		ContextTokens: [2]int{contexts[0], contexts[len(contexts)-1]},
	}
	if len(contexts) == 1 && contexts[0] == 0 {
		p.Valid.ContextTokens[1] = contextMax // the file says that contexts do not matter
	}
	if len(extras) > 1 {
		p.Table.ExtraRows = extras
		return nil
	}
	p.Rows = rowsLikeRequests(&p.Table)
	p.Notes = strings.TrimRight(p.Notes, "\n") + "\n\nAssumed: no step with more rows than requests was measured, so extra rows cost what as many requests of the shortest\n" +
		"context would, and their attention what a token of context costs one request.\n"
	return nil
}

// missingMost is how many missing points an error lists.
const missingMost = 8

func missingText(missing []string) string {
	text := fmt.Sprintf("%d points of the grid are missing: ", len(missing)) + strings.Join(missing[:min(len(missing), missingMost)], "; ")
	if more := len(missing) - missingMost; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text + ". Measure them, or remove the values that lack them"
}

func cellName(requests, rows, context int, withRows, withContext bool) string {
	text := fmt.Sprintf("requests %d", requests)
	if withRows {
		text += fmt.Sprintf(" rows %d", rows)
	}
	if withContext {
		text += fmt.Sprintf(" context %d", context)
	}
	return text
}

func median(times []float64) float64 {
	slices.Sort(times)
	middle := len(times) / 2
	if len(times)%2 == 1 {
		return times[middle]
	}
	return times[middle-1] + (times[middle]-times[middle-1])/2
}

// rowsLikeRequests prices extra rows by the steps of as many requests.
func rowsLikeRequests(t *Table) *RowPrice {
	price := &RowPrice{Rows: t.Requests}
	most := 0.0
	for _, middle := range t.Ms.Values {
		most = max(most, middle[0][0])
		price.Ms = append(price.Ms, most)
	}
	one, last := t.Ms.Values[0][0], len(t.ContextTokens)-1
	if run := t.ContextTokens[last] - t.ContextTokens[0]; run > 0 {
		price.AttentionNsPerRowToken = min(max(one[last]-one[0], 0)*1e6/float64(run), rowTokenMax)
	}
	return price
}
