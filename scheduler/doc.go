// Package scheduler is the pure core of one subserver: events in, messages and
// launches out. The simulator and the real runtime drive the same core, and
// the Markov chain calls the same launch rules, so that a policy that was
// predicted and simulated is the policy that serves.
//
// A core never reads a clock, draws a random number, blocks or starts a
// goroutine. Its driver owns time and transport, and has these duties:
//
//  1. Own the core: one goroutine calls Step, Settle and Launch. Event times
//     never go back.
//  2. Step every event that is due at an instant, at every core; deliver what
//     arrives without delay (hand-offs, State, Live, Release) as further events
//     of the same instant, until none is left. Then Settle every core, deliver
//     likewise and settle again, until nothing is left.
//  3. Only then ask every core to Launch, deliver the messages of these calls
//     likewise, and ask again until nothing starts and nothing is left.
//  4. Run the batch: feed each entry's tokens, write KV through its block
//     table, and where the entry Samples, sample a token, compute the signals
//     that the algorithm Needs and call Route. Answer with one StepDone.
//  5. Carry out messages in order. Send and Return hand the PeerReq over: to
//     model To, as PeerArrived or PeerReturned. Nothing may overtake between
//     the same two models.
//  6. Keep the system's live count: add every Live delta, and step LiveChanged
//     at every core when it changes.
//  7. Under a rule that NeedsPeers, ask no core to launch while a hand-off is
//     in transit.
//  8. Step a Wake when a WakeAt falls due. A Wake too many does no harm.
//
// The loop of a driver:
//
//	for each event of this instant {
//		deliver(core.Step(&event))
//	}
//	deliver(core.Settle())
//	batch, messages, ok := core.Launch()
//	deliver(messages)
//	if ok {
//		start(batch) // later: StepDone
//	}
//
// Exactly one Finish or Refuse answers every Arrived.
package scheduler
