// Package evidence holds the measured and published figures that step times rest
// on, the fits and tables made from them, and how well the step times meet them.
package evidence

import (
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

//go:embed data/*.csv
var data embed.FS

// table is one of the data files.
type table struct {
	name    string
	columns []string
	rows    [][]string
}

// readTable reads data/NAME.csv. The files belong to the program, so what is
// wrong with one is a broken invariant.
func readTable(name string) *table {
	file, err := data.Open("data/" + name + ".csv")
	if err != nil {
		panic("evidence: " + err.Error())
	}
	r := csv.NewReader(file)
	r.Comment = '#'
	lines, err := r.ReadAll()
	if err != nil || len(lines) < 2 {
		panic(fmt.Sprintf("evidence: %s.csv: %d lines, %v", name, len(lines), err))
	}
	return &table{name: name, columns: lines[0], rows: lines[1:]}
}

func (t *table) column(name string) int {
	for i, column := range t.columns {
		if column == name {
			return i
		}
	}
	panic("evidence: " + t.name + ".csv has no column " + name)
}

func (t *table) text(row int, column string) string { return t.rows[row][t.column(column)] }

func (t *table) count(row int, column string) int {
	n, err := strconv.Atoi(t.text(row, column))
	if err != nil {
		panic(fmt.Sprintf("evidence: %s.csv, row %d: %v", t.name, row+1, err))
	}
	return n
}

// number is a cell, and whether it holds anything.
func (t *table) number(row int, column string) (float64, bool) { return t.cell(row, t.column(column)) }

func (t *table) cell(row, column int) (float64, bool) {
	text := t.rows[row][column]
	if text == "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("evidence: %s.csv, row %d: %v", t.name, row+1, err))
	}
	return x, true
}

// axis are the numbers in the names of the columns that start with prefix, as in
// "c512_us", and where the first of them stands.
func (t *table) axis(prefix string) (first int, values []int) {
	first = -1
	for i, column := range t.columns {
		number, ok := strings.CutPrefix(strings.TrimSuffix(column, "_us"), prefix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		if first < 0 {
			first = i
		}
		values = append(values, n)
	}
	return first, values
}
