package frontdoor

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const dashboards = "../../dashboards"

// query is what a panel of the dashboard asks Prometheus.
type query struct{ panel, expr string }

// readDashboard lists the queries of Grafana's dashboard, and how it finds the
// names of models.
func readDashboard(t *testing.T) (queries []query, names string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dashboards, "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	type source struct{ Type, UID string }
	var d struct {
		Templating struct {
			List []struct {
				Name, Type string
				Query      json.RawMessage
			}
		}
		Panels []struct {
			ID          int
			Title, Type string
			Datasource  source
			Targets     []struct {
				Expr       string
				Datasource source
			}
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
		if v.Name == "model_name" {
			names = value(t, string(v.Query), "query").(string)
		}
	}
	if want := []string{"datasource datasource", "model_name query"}; !slices.Equal(variables, want) {
		t.Errorf("the variables are %q, want %q", variables, want)
	}
	seen := map[int]bool{}
	for _, p := range d.Panels {
		if seen[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			if p.Datasource.UID != "${datasource}" || target.Datasource != p.Datasource {
				t.Errorf("%s asks %v and %v, want the variable", p.Title, p.Datasource, target.Datasource)
			}
			queries = append(queries, query{p.Title, target.Expr})
		}
	}
	if len(queries) < 20 {
		t.Fatalf("only %d queries were found", len(queries))
	}
	return queries, names
}

var (
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^}]*)\}|\[)`)
	labelOf  = regexp.MustCompile(`([a-z_]+)="`)
	grouping = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
)

// TestDashboardAsksForWhatThereIs looks for every series and label that the
// dashboard names at a server that was asked once.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	s := open(t, Options{})
	s.post(textPath, order{Say: "abc"}.body(textPath, ""))
	_, samples := s.scrape()
	labels := map[string][]string{} // by series
	// order: into another map
	for series := range samples {
		name, rest, _ := strings.Cut(series, "{")
		labels[name] = nil
		for _, m := range labelOf.FindAllStringSubmatch(rest, -1) {
			labels[name] = append(labels[name], m[1])
		}
	}
	queries, names := readDashboard(t)
	if names != "label_values(vllm:num_requests_running, model_name)" || !slices.Contains(labels["vllm:num_requests_running"], "model_name") {
		t.Errorf("names of models come from %q", names)
	}
	asked := map[string]bool{}
	for _, q := range queries {
		found := selector.FindAllStringSubmatch(q.expr, -1)
		if len(found) == 0 {
			t.Errorf("%s: no metric in %s", q.panel, q.expr)
		}
		for _, m := range found {
			have, ok := labels[m[1]]
			if !ok {
				t.Errorf("%s asks for %s, which the server does not have", q.panel, m[1])
				continue
			}
			asked[m[1]] = true
			for _, by := range grouping.FindAllStringSubmatch(q.expr, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					if !slices.Contains(have, label) {
						t.Errorf("%s groups %s by %s, which it does not have", q.panel, m[1], label)
					}
				}
			}
		}
	}
	// What only this server has is all to be seen.
	// order: each is told for itself.
	for name := range labels {
		if strings.HasPrefix(name, "tokenrouter_") && !asked[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestPromtoolFindsNothing has Prometheus' own tool read the metrics and the
// example of a configuration. What it says of colons is about names that vLLM
// and SGLang chose, and clients look for.
func TestPromtoolFindsNothing(t *testing.T) {
	tool := os.Getenv("TOKENROUTER_PROMTOOL")
	if tool == "" {
		t.Skip("TOKENROUTER_PROMTOOL names no promtool")
	}
	s := open(t, Options{})
	s.post(chatPath, order{Say: "abc"}.body(chatPath, ""))
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(s.get("/metrics").body)
	text, err := cmd.CombinedOutput() // it fails for any word
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	colons := 0
	for line := range strings.Lines(string(text)) {
		name, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "metric names should not contain ':'" && (strings.HasPrefix(name, "vllm:") || strings.HasPrefix(name, "sglang:")) {
			colons++
			continue
		}
		if (name == "sglang:prompt_tokens_histogram" || name == "sglang:generation_tokens_histogram") && strings.Contains(what, "type 'histogram'") {
			continue // SGLang's names
		}
		if name == "vllm:iteration_tokens_total" && strings.HasPrefix(what, "non-counter") {
			continue // vLLM's name of a histogram
		}
		t.Errorf("promtool says: %s", line)
	}
	if colons == 0 {
		t.Error("promtool has nothing to say of colons: was it given the metrics?")
	}
	if text, err := exec.Command(tool, "check", "config", filepath.Join(dashboards, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("the example of a configuration: %s", text)
	}
}

// busy is a stage whose models have taken three steps more each time one looks.
type busy struct {
	*stage
	looks atomic.Int64
}

func (b *busy) Stats() []Stats {
	n := b.looks.Add(1)
	all := b.stage.Stats()
	for i := range all {
		all[i].Steps, all[i].Decodes, all[i].Sampled, all[i].Rows, all[i].BusyNs, all[i].Handoffs, all[i].LostKV = 3*n, n, 4*n, 6*n, n*1e6, n, 4
		all[i].Entered, all[i].Cached = 10*n, 4*n
		all[i].Requests, all[i].BySize, all[i].ByRows = 4*n, []int64{0, 3 * n}, []int64{0, 3 * n}
	}
	return all
}

// TestPrometheusAnswersTheDashboard runs a Prometheus with the example of a
// configuration beside a server that writes: every query of the dashboard must
// bring a figure.
func TestPrometheusAnswersTheDashboard(t *testing.T) {
	program := os.Getenv("TOKENROUTER_PROMETHEUS")
	if program == "" {
		t.Skip("TOKENROUTER_PROMETHEUS names no Prometheus")
	}
	s := closed(t, Options{})
	h := onStage(s.stage)
	h.Service = &busy{stage: s.stage}
	s.door.Open(h)
	s.listen(time.Second)
	config, err := os.ReadFile(filepath.Join(dashboards, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "127.0.0.1:30000", strings.TrimPrefix(s.url, "http://"), 1)
	text = strings.Replace(text, "scrape_interval: 5s", "scrape_interval: 1s", 1)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "prometheus.yml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "--config.file="+filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	queries, _ := readDashboard(t)
	for end := time.Now().Add(time.Minute); len(queries) > 0 && time.Now().Before(end); {
		s.post(textPath, order{Say: "abcdef"}.body(textPath, `"model":"routed"`))
		time.Sleep(100 * time.Millisecond)
		queries = slices.DeleteFunc(queries, func(q query) bool { return answered(t, address, q.expr) })
	}
	for _, q := range queries {
		t.Errorf("no figure for %s: %s", q.panel, q.expr)
	}
}

// answered says whether a Prometheus has figures for a query. It may not be
// there yet.
func answered(t *testing.T, address, expr string) bool {
	t.Helper()
	expr = strings.ReplaceAll(strings.ReplaceAll(expr, "$__rate_interval", "10s"), "$model_name", ".*")
	r, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return false
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", expr, text)
	}
	for _, series := range value(t, string(text), "data", "result").([]any) {
		if fmt.Sprint(series.(map[string]any)["value"].([]any)[1]) != "NaN" {
			return true
		}
	}
	return false
}
