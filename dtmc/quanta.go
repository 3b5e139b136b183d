package dtmc

import "fmt"

// quanta holds the length of every step in whole quanta.
type quanta struct {
	quantumNs int64
	steps     [][]length // by model and batch; [0] unused
	largest   []int      // by model
}

// length is a step of floor quanta, or floor+1 with probability above.
type length struct {
	floor int
	above float64
}

// stepTimes tabulates the nanoseconds of a step by model and batch.
func stepTimes(c *Config, v *visits) ([][]int64, error) {
	table := make([][]int64, len(c.Models))
	for m := range table {
		table[m] = make([]int64, c.maxBatch(m)+1)
		for b := 1; b < len(table[m]); b++ {
			ns := c.Models[m].Time.Ns(b, v.stepRows(m, b), b*c.contextTokens())
			if ns < 1 {
				return nil, fmt.Errorf("dtmc: Models[%d] (%s): a step of %d requests takes %d ns: want at least 1", m, c.Models[m].Name, b, ns)
			}
			table[m][b] = ns
		}
	}
	return table, nil
}

func (c *Config) contextTokens() int { return c.PromptTokens + c.OutputTokens/2 }

// maxBatch is the largest batch that a step of model m can have.
func (c *Config) maxBatch(m int) int {
	if r := c.Models[m].MaxRunning; r > 0 {
		return min(r, c.Users)
	}
	return c.Users
}

func newQuanta(table [][]int64, quantumNs int64) quanta {
	q := quanta{quantumNs: quantumNs, steps: make([][]length, len(table)), largest: make([]int, len(table))}
	for m, row := range table {
		q.steps[m] = make([]length, len(row))
		for b := 1; b < len(row); b++ {
			l := length{int(row[b] / quantumNs), float64(row[b]%quantumNs) / float64(quantumNs)}
			q.steps[m][b] = l
			if l.above > 0 {
				q.largest[m] = max(q.largest[m], l.floor+1)
			} else {
				q.largest[m] = max(q.largest[m], l.floor)
			}
		}
	}
	return q
}
