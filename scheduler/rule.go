package scheduler

import "fmt"

// Load is all that a launch rule may look at: one core at one instant, with
// what it knows of its peers. The simulator, the Markov chain and the real
// runtime fill it and call the very same rules.
type Load struct {
	Model         int        // index of the model that asks
	Ready         int        // requests that could run in the next step
	Live          int        // admitted requests in the whole system
	B             int        // threshold in force for this model, after Clamp
	OldestReadyNs int64      // since when the oldest ready request has waited
	NowNs         int64      // the instant of the decision
	Peers         []PeerLoad // by model index, the asker included; nil unless NeedsPeers
	LastRan       int        // model whose step ended last, -1 before the first
}

// PeerLoad is what a core knows of one model for the rules that take turns.
type PeerLoad struct {
	Busy  bool // a step is in flight
	Ready int  // requests that could run in its next step
}

// Rule decides whether an idle model starts a step now. Rules are values
// without state.
type Rule interface {
	Launch(l *Load) bool
	// NeedsPeers reports whether the rule reads Peers and LastRan. Such a rule
	// is asked only while no hand-off is in transit.
	NeedsPeers() bool
	// UsesB reports whether the rule reads B.
	UsesB() bool
	String() string
}

// Eager starts a step as soon as anything is ready.
type Eager struct{}

func (Eager) Launch(l *Load) bool { return l.Ready > 0 }
func (Eager) NeedsPeers() bool    { return false }
func (Eager) UsesB() bool         { return false }
func (Eager) String() string      { return "eager" }

// Delayed waits until B requests are ready; B comes with the load. MaxDelayNs
// bounds the wait of the oldest ready request; 0 means no bound.
type Delayed struct{ MaxDelayNs int64 }

func (d Delayed) Launch(l *Load) bool {
	if l.Ready == 0 {
		return false
	}
	return l.Ready >= l.B || d.MaxDelayNs > 0 && l.NowNs-l.OldestReadyNs >= d.MaxDelayNs
}
func (Delayed) NeedsPeers() bool { return false }
func (Delayed) UsesB() bool      { return true }
func (d Delayed) String() string {
	if d.MaxDelayNs > 0 {
		return fmt.Sprintf("delayed(max %d ns)", d.MaxDelayNs)
	}
	return "delayed"
}

// Alternate never has two models in flight: after each step the turn passes
// to the next model, in list order, that has ready requests.
type Alternate struct{}

func (Alternate) Launch(l *Load) bool {
	if l.Ready == 0 || anyBusy(l.Peers) {
		return false
	}
	k := len(l.Peers)
	for i := 1; i <= k; i++ {
		m := (l.LastRan + i) % k
		if m == l.Model {
			return true
		}
		if l.Peers[m].Ready > 0 {
			return false
		}
	}
	return true
}
func (Alternate) NeedsPeers() bool { return true }
func (Alternate) UsesB() bool      { return false }
func (Alternate) String() string   { return "alternate" }

// Lockstep starts nothing while any model is in flight; then every model with
// ready requests starts at once.
type Lockstep struct{}

func (Lockstep) Launch(l *Load) bool { return l.Ready > 0 && !anyBusy(l.Peers) }
func (Lockstep) NeedsPeers() bool    { return true }
func (Lockstep) UsesB() bool         { return false }
func (Lockstep) String() string      { return "lockstep" }

func anyBusy(peers []PeerLoad) bool {
	for i := range peers {
		if peers[i].Busy {
			return true
		}
	}
	return false
}
