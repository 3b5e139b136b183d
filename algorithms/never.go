package algorithms

// Never keeps every request where it entered: one model alone.
type Never struct{ AcceptAll }

func (Never) Name() string                  { return "never" }
func (Never) Needs(int) Need                { return 0 }
func (Never) Route(*View) Dest              { return Stay }
func (Never) Send(Departure, *PeerReq) bool { return true }
func (Never) Stay(*View) (int, Dest)        { return Forever, Stay }
