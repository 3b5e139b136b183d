package tokenizer

import (
	"math"
	"slices"
	"strings"
)

// merge is a rule of byte-pair encoding: two tokens become one; rules of lower
// rank come first.
type merge struct{ rank, token int32 }

func pairOf(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

const never = math.MaxInt32 // rank of a pair that no rule merges

func (t *Tokenizer) mergeOf(left, right int32) merge {
	if m, ok := t.merges[pairOf(left, right)]; ok {
		return m
	}
	return merge{rank: never}
}

// workspace is what one call of Encode works in. It remembers words that it has
// seen, since text repeats itself.
type workspace struct {
	words  map[string][]int32
	tokens []int32
	ranks  []int32
	heap   pairHeap
	next   []int32
	prev   []int32
}

const (
	// rememberedWords bounds a workspace to some 2 MB.
	rememberedWords = 1 << 14
	// longestRemembered is the longest word, in bytes, that is worth a place.
	longestRemembered = 48
	// longestScanned is the longest word, in bytes, whose lowest rank is found
	// by looking at all of them. It is quadratic, but no heap is as fast on words
	// of everyday length.
	longestScanned = 96
	// longestKept is the longest word, in bytes, whose workspace is used again:
	// one of a hundred megabytes would stay for good.
	longestKept = 1 << 16
)

func newWorkspace() any { return &workspace{words: map[string][]int32{}} }

// word appends the tokens of a word.
func (t *Tokenizer) word(w *workspace, dst []Token, word string) []Token {
	if t.ignoreMerges {
		if token, ok := t.ids[word]; ok {
			return append(dst, Token(token))
		}
	}
	if len(word) <= longestRemembered {
		tokens, ok := w.words[word]
		if !ok {
			if len(w.words) >= rememberedWords {
				clear(w.words)
			}
			tokens = slices.Clone(t.mergeWord(w, word))
			w.words[strings.Clone(word)] = tokens
		}
		return appendTokens(dst, tokens)
	}
	return appendTokens(dst, t.mergeWord(w, word))
}

func appendTokens(dst []Token, tokens []int32) []Token {
	for _, token := range tokens {
		dst = append(dst, Token(token))
	}
	return dst
}

// mergeWord returns the tokens of a word, valid until the next call.
func (t *Tokenizer) mergeWord(w *workspace, word string) []int32 {
	w.tokens = slices.Grow(w.tokens[:0], len(word))
	for i := range len(word) {
		// A byte that the vocabulary lacks vanishes, as in the reference library.
		if token := t.byteTokens[word[i]]; token >= 0 {
			w.tokens = append(w.tokens, token)
		}
	}
	if len(w.tokens) <= longestScanned {
		return t.mergeScanning(w)
	}
	return t.mergeByHeap(w)
}

// mergeScanning applies the rule of the lowest rank, leftmost first, until none
// applies.
func (t *Tokenizer) mergeScanning(w *workspace) []int32 {
	tokens, ranks := w.tokens, w.ranks[:0]
	for i := range len(tokens) - 1 {
		ranks = append(ranks, t.mergeOf(tokens[i], tokens[i+1]).rank)
	}
	for len(ranks) > 0 {
		best := 0
		for i, rank := range ranks {
			if rank < ranks[best] {
				best = i
			}
		}
		if ranks[best] == never {
			break
		}
		tokens[best] = t.mergeOf(tokens[best], tokens[best+1]).token
		tokens = slices.Delete(tokens, best+1, best+2)
		ranks = slices.Delete(ranks, best, best+1)
		if best > 0 {
			ranks[best-1] = t.mergeOf(tokens[best-1], tokens[best]).rank
		}
		if best < len(ranks) {
			ranks[best] = t.mergeOf(tokens[best], tokens[best+1]).rank
		}
	}
	w.ranks = ranks
	return tokens
}

// pair is a merge that could be done at a place, if both tokens are still there.
type pair struct {
	rank, at, left, right int32
}

func (p pair) before(q pair) bool { return p.rank < q.rank || p.rank == q.rank && p.at < q.at }

type pairHeap []pair

func (h *pairHeap) push(p pair) {
	*h = append(*h, p)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *pairHeap) pop() pair {
	s := *h
	top := s[0]
	s[0] = s[len(s)-1]
	s = s[:len(s)-1]
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(s[i]) {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	*h = s
	return top
}

// gone marks a token that was merged into the one on its left.
const gone = -1

// mergeByHeap does what mergeScanning does in time n log n.
func (t *Tokenizer) mergeByHeap(w *workspace) []int32 {
	tokens := w.tokens
	n := int32(len(tokens))
	w.next, w.prev, w.heap = slices.Grow(w.next[:0], int(n)), slices.Grow(w.prev[:0], int(n)), w.heap[:0]
	for i := range n {
		w.next, w.prev = append(w.next, i+1), append(w.prev, i-1)
	}
	offer := func(i int32) {
		if i < 0 || w.next[i] >= n {
			return
		}
		left, right := tokens[i], tokens[w.next[i]]
		if m := t.mergeOf(left, right); m.rank != never {
			w.heap.push(pair{m.rank, i, left, right})
		}
	}
	for i := range n {
		offer(i)
	}
	for len(w.heap) > 0 {
		p := w.heap.pop()
		right := w.next[p.at]
		if tokens[p.at] != p.left || right >= n || tokens[right] != p.right {
			continue // one of them was merged away since
		}
		tokens[p.at] = t.mergeOf(p.left, p.right).token
		tokens[right] = gone
		w.next[p.at] = w.next[right]
		if w.next[right] < n {
			w.prev[w.next[right]] = p.at
		}
		offer(w.prev[p.at])
		offer(p.at)
	}
	kept := tokens[:0]
	for i := int32(0); i < n; i = w.next[i] {
		kept = append(kept, tokens[i])
	}
	return kept
}
