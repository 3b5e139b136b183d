package experiments

import (
	"bytes"
	"encoding/csv"
	"math"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Row is a cell without its seed: figures over all seeds.
type Row struct {
	Point      *Point
	System, On string
	Status     Status // ok only if all seeds are
	Reason     string // of the first seed that is not
	Seeds      int
	Mean       []float64 // in the order of Figures; NaN where nothing was observed
	CI95       []float64 // half width of the 95 % interval of the mean over seeds; NaN for one seed
}

// Rows gathers the seeds of each cell, in the order of the plan.
func (r *Results) Rows() []Row {
	var rows []Row
	cells := r.Plan.Cells
	for first := 0; first < len(cells); {
		end := first + 1
		for end < len(cells) && sameButSeed(cells[first], cells[end]) {
			end++
		}
		rows = append(rows, r.row(first, end))
		first = end
	}
	return rows
}

func sameButSeed(a, b Cell) bool {
	return a.Point == b.Point && a.System == b.System && a.On == b.On
}

func (r *Results) row(first, end int) Row {
	c := r.Plan.Cells[first]
	row := Row{Point: c.Point, System: c.System, On: c.On, Status: StatusOK, Seeds: end - first}
	for _, record := range r.Records[first:end] {
		if record.Status != StatusOK && row.Status == StatusOK {
			row.Status, row.Reason = record.Status, record.Reason
		}
	}
	for f := range r.Figures {
		var seen []float64
		for _, record := range r.Records[first:end] {
			if row.Status == StatusOK && !math.IsNaN(record.Values[f]) {
				seen = append(seen, record.Values[f])
			}
		}
		mean, half := interval(seen)
		row.Mean, row.CI95 = append(row.Mean, mean), append(row.CI95, half)
	}
	return row
}

// interval is the mean and the half width of its 95 % interval by Student's t,
// which supposes that seeds are independent and means about normal.
func interval(x []float64) (mean, half float64) {
	if len(x) == 0 {
		return math.NaN(), math.NaN()
	}
	if len(x) == 1 {
		return x[0], math.NaN()
	}
	mean, sd := stat.MeanStdDev(x, nil)
	n := float64(len(x))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean, t * sd / math.Sqrt(n)
}

// CSV writes the rows as results.csv: settings that the experiment sweeps,
// then each figure and its interval.
func (r *Results) CSV() []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	header := []string{"experiment", "system", "on", "status", "reason", "seeds"}
	header = append(header, r.Plan.Swept...)
	for _, f := range r.Figures {
		header = append(header, f.Column, f.Column+"_ci95")
	}
	lines := [][]string{header}
	for _, row := range r.Rows() {
		line := []string{r.Plan.Name, row.System, row.On, string(row.Status), row.Reason, strconv.Itoa(row.Seeds)}
		for _, s := range row.Point.Swept {
			line = append(line, s.plain())
		}
		for f := range r.Figures {
			line = append(line, csvNumber(row.Mean[f]), csvNumber(row.CI95[f]))
		}
		lines = append(lines, line)
	}
	if err := w.WriteAll(lines); err != nil {
		panic("experiments: a buffer refused to be written: " + err.Error())
	}
	return buf.Bytes()
}

// plain writes the value without the quotes of a string.
func (s Setting) plain() string {
	if text, ok := s.Value.(string); ok {
		return text
	}
	return s.Text()
}

func csvNumber(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return formatFloat(x)
}
