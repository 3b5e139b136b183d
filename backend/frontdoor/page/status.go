package page

// Status is what the page shows of a server at one instant. Figures that count
// grow from the server's start, and the page takes differences.
type Status struct {
	Version   string `json:"version"`
	StartedMs int64  `json:"started_ms"` // since 1970; another one is another server
	NowMs     int64  `json:"now_ms"`     // since 1970, when the figures were taken
	State     State  `json:"state"`
	Problem   string `json:"problem"` // why it is Broken, as text for people
	// KeyNeeded says that prompts need the server's key.
	KeyNeeded bool `json:"key_needed"`
	// Chat says that there is a chat template; without one a prompt is a text to
	// go on with.
	Chat  bool   `json:"chat"`
	Names []Name `json:"names"` // that a prompt may ask for, the first if it does not care
	// Thresholds says that prompts to all models together may bring a threshold.
	Thresholds bool `json:"thresholds"`

	Waiting int `json:"waiting"` // answers without a token yet
	Running int `json:"running"` // with some, and more to come
	// LiveS are the seconds in which answers waited or ran: tokens a second are
	// those of these, as predictions are, and not of all that passed.
	LiveS float64 `json:"live_s"`
	// PredictedTokPerS is what the chain predicts for the requests that are live
	// now; nil is not shown.
	PredictedTokPerS *float64     `json:"predicted_tok_per_s"`
	TTFT             *Percentiles `json:"ttft"` // of late; nil if there was none
	ITL              *Percentiles `json:"itl"`
	Models           []Model      `json:"models"`
}

// State says what a server is about.
type State string

// The states of a server.
const (
	Starting State = "starting" // its models are not there yet
	Serving  State = "serving"
	Draining State = "draining" // it takes no further requests
	Broken   State = "broken"   // a model is lost
	Locked   State = "locked"   // the page has not shown the key: it is told nothing else
)

// Name is what stands in the field model of a request.
type Name struct {
	Name   string `json:"name"`
	Routed bool   `json:"routed"` // by all models together, else by one alone
}

// Model is one subserver.
type Model struct {
	Name string `json:"name"`
	Home bool   `json:"home"` // where routed requests start
	Here bool   `json:"here"` // in this process; otherwise only its tokens are known

	Running int `json:"running"` // in the step under way, or ready for the next one
	Ready   int `json:"ready"`   // those of them that wait for the next step
	Pending int `json:"pending"` // of this home, away at another model
	Away    int `json:"away"`    // of other homes, KV kept, not here now
	Waiting int `json:"waiting"` // not taken in yet
	B       int `json:"b"`       // threshold in force

	Steps   int64   `json:"steps"`
	Sampled int64   `json:"sampled"` // tokens; one a request in each step that does not only prefill
	BusyS   float64 `json:"busy_s"`  // seconds that the steps took
	// Batches counts steps by their number of requests; nil is not shown.
	Batches []Batches `json:"batches"`

	KVHeld   int `json:"kv_held"`   // tokens of KV that requests hold
	KVCached int `json:"kv_cached"` // that stay for prefixes to come
	KVTotal  int `json:"kv_total"`

	Tokens           int64    `json:"tokens"`        // that clients got from this model
	RoutedTokens     int64    `json:"routed_tokens"` // those in answers of all models together
	PredictedTokPerS *float64 `json:"predicted_tok_per_s"`
	Problem          string   `json:"problem"`
}

// Batches are the steps with up to Upto requests, and more than the entry
// before.
type Batches struct {
	Upto  int   `json:"upto"`
	Steps int64 `json:"steps"`
}

// Percentiles are in milliseconds.
type Percentiles struct {
	P50Ms float64 `json:"p50_ms"`
	P90Ms float64 `json:"p90_ms"`
	P99Ms float64 `json:"p99_ms"`
	Count int     `json:"count"` // of what they are taken
}
