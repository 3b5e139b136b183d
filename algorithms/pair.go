package algorithms

// Pair is what the algorithms with a small and a large model share. The home
// is normally Small. Whatever the home, every model but Small plays the part
// of the large one: so a request that enters at Large (or at a third model)
// gets its first token there, goes to Small, and from then on moves between
// Small and Large; its tokens still travel to where it entered.
type Pair struct {
	AcceptAll
	Small, Large int // indices of models, which differ
}

// Send drops the token of the small model, because the large one rewrites that
// position, and keeps those of the large one.
func (p Pair) Send(d Departure, _ *PeerReq) bool { return d.From != p.Small }

// oneTokenVisit is the route of an algorithm whose large model writes exactly
// one token: leave says whether the small model gives this position away. It
// is not read elsewhere, so a position the large model wrote is never tested
// again.
func (p Pair) oneTokenVisit(v *View, leave bool) Dest {
	if v.Model != p.Small {
		return To(p.Small)
	}
	if leave {
		return To(p.Large)
	}
	return Stay
}

// atSmall is need at the small model and nothing elsewhere.
func (p Pair) atSmall(model int, need Need) Need {
	if model == p.Small {
		return need
	}
	return 0
}
