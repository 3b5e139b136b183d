package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Options say how to run a plan.
type Options struct {
	// Evaluate runs one cell. It is called from several goroutines, and only
	// once for cells that must give equal results.
	Evaluate func(ctx context.Context, c Cell) Outcome
	Workers  int    // 0: one for each CPU
	Out      string // folder for results; "" writes nothing
	Version  string // of the program, for results.jsonl
	Build    string // names the program's exact build: results of another are not taken over
	// Progress, if set, is told how many of all evaluations are done.
	Progress func(done, total int)
	// Measuring, if set, is told before the first evaluation how many of those that
	// are not taken over are in real time, if any are, and for how many seconds they
	// run; 0 if that is not known.
	Measuring func(runs int, seconds float64)
}

// Interrupted is the error of a run that was cancelled.
type Interrupted struct {
	Done, Total int    // evaluations
	Out         string // where the finished ones are kept; "" if nowhere
	Cause       error
}

func (e *Interrupted) Error() string {
	s := fmt.Sprintf("interrupted after %d of %d runs", e.Done, e.Total)
	if e.Out != "" {
		s += "; the same command goes on from there (" + e.Out + ")"
	}
	return s
}

func (e *Interrupted) Unwrap() error { return e.Cause }

// job is one evaluation; several cells may wait for it.
type job struct {
	key  string
	cell Cell
}

type answer struct {
	job
	record Record
	stack  string
	wall   time.Duration
}

// Run evaluates the cells of a plan. The results, and every file in
// Options.Out save run.log, do not depend on the number of workers, on timing
// or on how often the run was interrupted. An error other than Interrupted is
// about the folder; cells that break are counted by Results.Failures.
func Run(ctx context.Context, p *Plan, o Options) (*Results, error) {
	r := &run{plan: p, options: o, models: p.ModelNames(), records: map[string]Record{}}
	if err := r.open(); err != nil {
		return nil, err
	}
	r.announce()
	err := r.evaluate(ctx)
	if err != nil {
		r.log("stopped: %v", err)
		return nil, errors.Join(err, r.close())
	}
	results := r.results()
	if err := r.write(results); err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	return results, nil
}

type run struct {
	plan    *Plan
	options Options
	models  []string
	keys    []string // of all evaluations, in the order of the plan
	todo    []job
	records map[string]Record
	reused  int
	store   *store
	logFile *os.File
	release func() // of the folder
}

// openFolder makes the folder this run's own, before anything in it is touched,
// and reads what earlier ones left there.
func (r *run) openFolder() error {
	if err := os.MkdirAll(r.options.Out, 0o755); err != nil {
		return fmt.Errorf("make the folder for results: %w", err)
	}
	if err := mustBeOurs(r.options.Out); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(r.options.Out, RunLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	release, free := lock(log)
	if !free {
		return errors.Join(&BusyError{r.options.Out}, log.Close())
	}
	r.logFile, r.release = log, release
	if r.store, err = openStore(r.options.Out, r.plan.Name, r.options.Build, len(r.plan.Figures()), r.plan.otherFigures()); err != nil {
		return errors.Join(err, r.closeLog())
	}
	return nil
}

// closeLog lets other runs into the folder.
func (r *run) closeLog() error {
	r.release()
	return r.logFile.Close()
}

// open lists the evaluations and takes over those that are done.
func (r *run) open() error {
	if r.options.Out != "" {
		if err := r.openFolder(); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, c := range r.plan.Cells {
		key := c.Key()
		if seen[key] {
			continue
		}
		seen[key] = true
		r.keys = append(r.keys, key)
		if r.store != nil {
			if record, done := r.store.done[key]; done {
				r.records[key] = record
				r.reused++
				continue
			}
		}
		r.todo = append(r.todo, job{key, c})
	}
	r.log("start %s: %d cells, %d runs, %d of them done before", r.options.Version, len(r.plan.Cells), len(r.keys), r.reused)
	return nil
}

// announce says what of the work left is measured.
func (r *run) announce() {
	if r.options.Measuring == nil {
		return
	}
	var left []Cell
	for _, j := range r.todo {
		left = append(left, j.cell)
	}
	if runs, seconds := measuredRuns(left); runs > 0 {
		r.options.Measuring(runs, seconds)
	}
}

// evaluate runs what is left to do: first what is virtual, several at once, then
// what is measured, one after the other, since whatever ran beside it would be
// measured too. When ctx ends it returns at once; cells in flight are lost.
func (r *run) evaluate(ctx context.Context) error {
	workers := r.options.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var virtual, measured []job
	for _, j := range r.todo {
		if IsReal(j.cell.On) {
			measured = append(measured, j)
		} else {
			virtual = append(virtual, j)
		}
	}
	if err := r.work(ctx, virtual, workers); err != nil {
		return err
	}
	return r.measure(ctx, measured)
}

// measure runs what is measured, each system once: a cell whose B is tuned may
// come to the same as one that was told its B, and takes over what that showed.
func (r *run) measure(ctx context.Context, todo []job) error {
	first := map[string]string{} // the key of the first cell of those that come to the same
	for _, c := range r.plan.Cells {
		if !IsReal(c.On) {
			continue
		}
		if settled := c.settledKey(); first[settled] == "" {
			first[settled] = c.Key()
		}
	}
	var own, twins []job
	for _, j := range todo {
		if first[j.cell.settledKey()] == j.key {
			own = append(own, j)
		} else {
			twins = append(twins, j)
		}
	}
	if err := r.work(ctx, own, 1); err != nil {
		return err
	}
	for _, j := range twins {
		if err := r.keep(answer{job: j, record: r.records[first[j.cell.settledKey()]]}); err != nil {
			return err
		}
	}
	r.progress()
	return nil
}

// work evaluates jobs, so many at once.
func (r *run) work(ctx context.Context, todo []job, workers int) error {
	jobs := make(chan job)
	answers := make(chan answer, workers)
	inner, stop := context.WithCancel(ctx)
	defer stop()
	var pool sync.WaitGroup
	for range min(workers, len(todo)) {
		pool.Go(func() {
			for j := range jobs {
				a := r.one(inner, j)
				select {
				case answers <- a:
				case <-inner.Done():
					return
				}
			}
		})
	}
	go func() {
		defer close(jobs)
		for _, j := range todo {
			select {
			case jobs <- j:
			case <-inner.Done():
				return
			}
		}
	}()
	return r.collect(ctx, answers, len(todo))
}

func (r *run) collect(ctx context.Context, answers <-chan answer, todo int) error {
	for range todo {
		r.progress()
		select {
		case a := <-answers:
			if ctx.Err() != nil {
				return r.interrupted(ctx)
			}
			if err := r.keep(a); err != nil {
				return err
			}
		case <-ctx.Done():
			return r.interrupted(ctx)
		}
	}
	r.progress()
	return nil
}

func (r *run) progress() {
	if r.options.Progress != nil {
		r.options.Progress(len(r.records), len(r.keys))
	}
}

func (r *run) interrupted(ctx context.Context) error {
	return &Interrupted{len(r.records), len(r.keys), r.options.Out, context.Cause(ctx)}
}

func (r *run) keep(a answer) error {
	r.records[a.key] = a.record
	r.log("%s %s %s seed %d: %s in %v%s", a.cell.System, a.cell.On, sweptText(a.cell.Point), a.cell.Seed, a.record.Status, a.wall.Round(time.Microsecond), a.stack)
	if r.store == nil {
		return nil
	}
	return r.store.add(a.key, a.record)
}

func sweptText(p *Point) string {
	parts := make([]string, len(p.Swept))
	for i, s := range p.Swept {
		parts[i] = s.Path + "=" + s.Text()
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// one evaluates a cell. A panic is a fault of ours in one cell; it must not
// cost the others, so it becomes that cell's error and its stack is logged.
func (r *run) one(ctx context.Context, j job) (a answer) {
	a.job = j
	start := time.Now()
	defer func() {
		a.wall = time.Since(start)
		if v := recover(); v != nil {
			a.record = Record{Status: StatusError, Reason: fmt.Sprintf("internal error: %v", v)}
			a.stack = "\n" + string(debug.Stack())
		}
	}()
	a.record = newRecord(r.options.Evaluate(ctx, j.cell), len(r.models), len(r.plan.Classes()), r.plan.Measures())
	return a
}

func (r *run) results() *Results {
	out := &Results{
		Plan: r.plan, Version: r.options.Version, Figures: r.plan.Figures(),
		Reused: r.reused, Ran: len(r.keys) - r.reused,
	}
	for _, c := range r.plan.Cells {
		out.Records = append(out.Records, r.records[c.Key()])
	}
	return out
}

func (r *run) write(results *Results) error {
	r.log("done: %d failed", results.Failures())
	if r.store == nil {
		return nil
	}
	var lines []byte
	for i := range results.Records {
		lines = append(append(lines, results.JSON(i)...), '\n')
	}
	return errors.Join(
		ReplaceFile(filepath.Join(r.options.Out, ResultsJSONL), lines),
		ReplaceFile(filepath.Join(r.options.Out, ResultsCSV), results.CSV()),
		r.store.finish(r.keys, r.records),
		r.closeLog(),
	)
}

func (r *run) close() error {
	if r.store == nil {
		return nil
	}
	return errors.Join(r.store.close(), r.closeLog())
}

// log writes to run.log, the only file with dates and wall times. What goes
// wrong with it must not stop the run.
func (r *run) log(format string, args ...any) {
	if r.logFile != nil {
		fmt.Fprintf(r.logFile, time.Now().Format(time.RFC3339)+" "+format+"\n", args...)
	}
}
