package experiments

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// cpuSignals are those that models on this machine give: they come out of the
// logits. The others take a router or a head that was trained for the model.
const cpuSignals = algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK

// checkCPU refuses what could only fail, or show nothing, once the models of a
// cpu experiment have been read and measured for minutes.
func checkCPU(s settings, spec *Spec, fail failFunc) {
	room := spec.realRoom()
	for i := range spec.Models {
		checkCPUPool(s, &spec.Models[i], room.prompt, fail)
	}
	for _, system := range listOr(s, "systems") {
		algorithm, err := spec.NewAlgorithm()
		if err != nil {
			return // it has been said
		}
		run := &setup{spec: spec, models: spec.Models, alone: -1, home: spec.Home, algorithm: algorithm}
		if run.compose(Cell{Point: &Point{Spec: spec}, System: system, On: OnCPU}) != nil {
			continue // its cells say why
		}
		if !run.fitTogether(fail) {
			return
		}
	}
}

// checkCPUPool checks one model's KV and positions against the longest prompt.
func checkCPUPool(s settings, m *Model, prompt int, fail failFunc) {
	block := m.BlockTokens
	if kv := m.CPU.KVTokens; kv > 0 && kv/block*block < prompt+1 {
		fail("models."+m.Name+".cpu.kv_tokens", "raise it, leave it out, or shorten workload.prompt_tokens and output_tokens",
			"must hold a prompt of %d tokens%s and one more, got %d in blocks of %d", prompt, onCPUText(s), kv, block)
	}
	if most := m.CPU.Positions; most > 0 && prompt+1 > most {
		at := "workload.prompt_tokens"
		if s[at] == nil && s["workload.lengths"] != nil {
			at = "workload.lengths"
		}
		fail(at, "shorten the requests, or take another model",
			"a prompt of %d tokens%s and one more are too many for %s, which was made for %d positions", prompt, onCPUText(s), m.CPU.Model, most)
	}
}

// onCPUText explains a prompt that nobody has written down.
func onCPUText(s settings) string {
	if get[string](s, "workload.kind") == KindSteady {
		return ", with which steady requests start on cpu (prompt_tokens and half of output_tokens),"
	}
	return ""
}

// fitTogether reports whether the system's models can write one text, and route
// it; if not it says why.
func (s *setup) fitTogether(fail failFunc) bool {
	first := &s.models[0]
	for i := range s.models {
		m := &s.models[i]
		if m.CPU.Vocab != first.CPU.Vocab {
			fail("models."+m.Name+".cpu.model", "choose models of one family",
				"%s has a vocabulary of %d, and %s one of %d: models that write one text share a tokenizer",
				m.CPU.Model, m.CPU.Vocab, first.CPU.Model, first.CPU.Vocab)
			return false
		}
		if lacks := s.algorithm.Needs(i) &^ cpuSignals; lacks != 0 {
			fail("routing.algorithm", fmt.Sprintf("one that reads only %v, like confidence or rstitch, or matrix with the share of tokens that it routes", cpuSignals),
				"%s reads %v of %s, which models on cpu do not give", s.algorithm.Name(), lacks, m.Name)
			return false
		}
	}
	return true
}
