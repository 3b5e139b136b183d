package scheduler

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
)

// slowKV is the slow twin of kvPool: slices and a map keyed by the whole text
// from the root, so it shares neither the forest nor the hashing.
type slowKV struct {
	blocks, blockTokens int
	reuse               bool

	fresh int32
	free  []int32 // a stack
	lru   []int32 // first to be evicted first
	refs  map[int32]int
	text  map[int32]string // published blocks
	byKey map[string]int32
}

func newSlowKV(blocks, blockTokens int, reuse bool) *slowKV {
	return &slowKV{blocks: blocks, blockTokens: blockTokens, reuse: reuse,
		refs: map[int32]int{}, text: map[int32]string{}, byKey: map[string]int32{}}
}

func (s *slowKV) key(ids []algorithms.Token, i int) string {
	return fmt.Sprint(ids[:(i+1)*s.blockTokens])
}

func (s *slowKV) available() int {
	return s.blocks - int(s.fresh) + len(s.free) + len(s.lru)
}

func (s *slowKV) hold(b int32) {
	if s.refs[b]++; s.refs[b] == 1 {
		i := slices.Index(s.lru, b)
		s.lru = slices.Delete(s.lru, i, i+1)
	}
}

func (s *slowKV) drop(b int32) {
	if s.refs[b]--; s.refs[b] > 0 {
		return
	}
	if _, published := s.text[b]; published {
		s.lru = append(s.lru, b)
	} else {
		s.free = append(s.free, b)
	}
}

func (s *slowKV) match(ids []algorithms.Token) (got []int32) {
	for i := range len(ids) / s.blockTokens {
		b, ok := s.byKey[s.key(ids, i)]
		if !ok {
			break
		}
		s.hold(b)
		got = append(got, b)
	}
	return got
}

func (s *slowKV) alloc(n int) (got []int32, ok bool) {
	if n > s.available() {
		return nil, false
	}
	for range n {
		var b int32
		switch {
		case len(s.free) > 0:
			b = s.free[len(s.free)-1]
			s.free = s.free[:len(s.free)-1]
		case int(s.fresh) < s.blocks:
			b = s.fresh
			s.fresh++
		default:
			b = s.lru[0]
			s.lru = s.lru[1:]
			delete(s.byKey, s.text[b])
			delete(s.text, b)
		}
		s.refs[b] = 1
		got = append(got, b)
	}
	return got, true
}

func (s *slowKV) publish(ids []algorithms.Token, blocks []int32) {
	for i := range min(len(ids)/s.blockTokens, len(blocks)) {
		if _, done := s.text[blocks[i]]; done || !s.reuse {
			continue
		}
		key := s.key(ids, i)
		if twin, ok := s.byKey[key]; ok {
			s.hold(twin)
			s.drop(blocks[i])
			blocks[i] = twin
			continue
		}
		s.text[blocks[i]] = key
		s.byKey[key] = blocks[i]
	}
}

func (s *slowKV) release(blocks []int32) {
	for _, b := range slices.Backward(blocks) {
		s.drop(b)
	}
}

// kvUser is a request as the pool sees it. kv[b] below says which text the
// engine has really written to a block.
type kvUser struct {
	ids    []algorithms.Token
	blocks []int32 // of the pool
	slow   []int32 // of the slow twin
}

type kvPair struct {
	pool  *kvPool
	slow  *slowKV
	users []*kvUser
	kv    map[int32]string
}

// fill writes the KV of u's own full blocks from index i on, as a forward does.
func (m *kvPair) fill(u *kvUser, from int) {
	for i := from; i < len(u.ids)/m.pool.blockTokens; i++ {
		m.kv[u.blocks[i]] = m.slow.key(u.ids, i)
	}
}

func (m *kvPair) admit(t *rapid.T) {
	ids := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 4*m.pool.blockTokens).Draw(t, "ids")
	u := &kvUser{}
	for _, id := range ids {
		u.ids = append(u.ids, algorithms.Token(id))
	}
	u.blocks = m.pool.match(nil, u.ids[:len(ids)-1])
	u.slow = m.slow.match(u.ids[:len(ids)-1])
	matched := len(u.blocks)
	for i, b := range u.blocks {
		if m.kv[b] != m.slow.key(u.ids, i) {
			t.Fatalf("matched block %d holds %q, want %q", b, m.kv[b], m.slow.key(u.ids, i))
		}
	}
	if m.grow(t, u, m.pool.blocksFor(len(ids))-matched) {
		m.fill(u, matched)
		m.users = append(m.users, u)
		return
	}
	m.release(u, 0)
}

// grow allocates n blocks from both pools and reports whether they had them.
func (m *kvPair) grow(t *rapid.T, u *kvUser, n int) bool {
	before := m.pool.available()
	got, ok := m.pool.alloc(u.blocks, n)
	want, wantOK := m.slow.alloc(n)
	if ok != wantOK || ok != (n <= before) {
		t.Fatalf("alloc %d of %d answered %v, slow twin %v", n, before, ok, wantOK)
	}
	if !ok && (m.pool.available() != before || len(got) != len(u.blocks)) {
		t.Fatalf("refused alloc changed the pool")
	}
	u.blocks, u.slow = got, append(u.slow, want...)
	return ok
}

func (m *kvPair) release(u *kvUser, from int) {
	m.pool.release(u.blocks[from:])
	m.slow.release(u.slow[from:])
	u.blocks, u.slow = u.blocks[:from], u.slow[:from]
}

func (m *kvPair) user(t *rapid.T) *kvUser {
	if len(m.users) == 0 {
		t.Skip("no user")
	}
	return m.users[rapid.IntRange(0, len(m.users)-1).Draw(t, "user")]
}

func (m *kvPair) decode(t *rapid.T) {
	u := m.user(t)
	n := rapid.IntRange(1, 2*m.pool.blockTokens).Draw(t, "tokens")
	if !m.grow(t, u, m.pool.blocksFor(len(u.ids)+n)-len(u.blocks)) {
		return
	}
	full := len(u.ids) / m.pool.blockTokens
	for range n {
		u.ids = append(u.ids, algorithms.Token(rapid.Int32Range(0, 1).Draw(t, "id")))
	}
	m.fill(u, full)
}

func (m *kvPair) publish(t *rapid.T) {
	u := m.user(t)
	// from is a hint of where to start: 0 and a forgotten publish are as good.
	from := rapid.IntRange(0, len(u.ids)/m.pool.blockTokens).Draw(t, "from")
	if from < len(u.ids)/m.pool.blockTokens {
		m.slow.publish(u.ids, u.slow)
	}
	m.pool.publish(u.ids, u.blocks, from)
}

func (m *kvPair) leave(t *rapid.T) {
	u := m.user(t)
	// Retract keeps a prefix sometimes; most requests leave whole.
	if keep := rapid.IntRange(0, len(u.blocks)).Draw(t, "keep"); rapid.Bool().Draw(t, "tail only") && keep > 0 {
		m.release(u, keep)
		u.ids = u.ids[:min(len(u.ids), keep*m.pool.blockTokens)]
		return
	}
	m.release(u, 0)
	m.users = slices.DeleteFunc(m.users, func(v *kvUser) bool { return v == u })
}

func (m *kvPair) compare(t *rapid.T) {
	if err := m.pool.check(); err != nil {
		t.Fatal(err)
	}
	if got, want := m.pool.available(), m.slow.available(); got != want {
		t.Fatalf("available %d, slow twin %d", got, want)
	}
	for _, u := range m.users {
		if !slices.Equal(u.blocks, u.slow) {
			t.Fatalf("blocks %v, slow twin %v", u.blocks, u.slow)
		}
		for i := range len(u.ids) / m.pool.blockTokens {
			if got, want := m.kv[u.blocks[i]], m.slow.key(u.ids, i); got != want {
				t.Fatalf("block %d of a request holds %q, want %q", u.blocks[i], got, want)
			}
		}
	}
}

// TestKVAgainstSlowTwin lets requests come, grow, publish, shrink and leave in
// any order over tiny pools and two tokens. Both pools must give the same
// blocks, and the KV that the engine wrote must be the KV that a match finds.
func TestKVAgainstSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 12).Draw(t, "blocks")
		blockTokens := rapid.IntRange(1, 3).Draw(t, "block tokens")
		reuse := rapid.IntRange(0, 4).Draw(t, "reuse") > 0
		m := &kvPair{
			pool: newKVPool(blocks, blockTokens, reuse),
			slow: newSlowKV(blocks, blockTokens, reuse),
			kv:   map[int32]string{},
		}
		if reuse && rapid.Bool().Draw(t, "one bucket") {
			oneBucket(m.pool)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":        m.compare,
			"admit":   m.admit,
			"decode":  m.decode,
			"publish": m.publish,
			"leave":   m.leave,
		})
		for _, u := range m.users {
			m.release(u, 0)
		}
		m.users = nil
		m.compare(t)
		if m.pool.available() != blocks {
			t.Fatalf("%d of %d blocks available after all left", m.pool.available(), blocks)
		}
	})
}

func tokens(ids ...algorithms.Token) []algorithms.Token { return ids }

// busyKV is a small pool with blocks of every kind: two cached under a held
// one, one private, two freed and two never used.
func busyKV(t *testing.T) *kvPool {
	t.Helper()
	p := newKVPool(9, 2, true)
	long := tokens(1, 2, 3, 4, 5, 6)
	chain, _ := p.alloc(nil, 3) // 0 1 2
	p.publish(long, chain, 0)
	other, _ := p.alloc(nil, 4) // 3 4 5 6
	p.publish(tokens(7, 8), other[:1], 0)
	p.release(other[1:3])
	p.release(chain)
	if got := p.match(nil, long[:2]); !slices.Equal(got, []int32{0}) {
		t.Fatalf("match gave %v", got)
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKVCheckCatches plants one fault at a time; the invariant named must see
// it. Without this, check could be vacuous.
func TestKVCheckCatches(t *testing.T) {
	for _, c := range []struct {
		name, want string
		plant      func(p *kvPool)
	}{
		{"free count", "K1", func(p *kvPool) { p.nFree++ }},
		{"cached count", "K1", func(p *kvPool) { p.nIdle-- }},
		{"free block held", "K1", func(p *kvPool) { p.blocks[4].refs = 1 }},
		{"lost block", "K1", func(p *kvPool) { p.blocks[4].state = kvPrivate; p.blocks[4].refs = 1 }},
		{"negative count", "K2", func(p *kvPool) { p.blocks[3].refs = -1 }},
		{"private shared", "K2", func(p *kvPool) { p.blocks[6].refs = 2 }},
		{"free stack cut", "K3", func(p *kvPool) { p.free = kvNone }},
		{"free stack loop", "K3", func(p *kvPool) { p.blocks[p.free].next = p.free }},
		{"held block on free stack", "K3", func(p *kvPool) { p.blocks[p.free].next = 6 }},
		{"LRU cut", "K4", func(p *kvPool) { p.lruFirst = p.blocks[p.lruFirst].next }},
		{"LRU back link", "K4", func(p *kvPool) { p.blocks[1].prev = 0 }},
		{"LRU end", "K4", func(p *kvPool) { p.lruLast = p.lruFirst }},
		{"LRU loop", "K4", func(p *kvPool) { p.blocks[p.lruLast].next = p.lruFirst }},
		{"held block in LRU", "K4", func(p *kvPool) { p.lruFirst = 3 }},
		{"tokens overwritten", "K5", func(p *kvPool) { p.tokens[2*2]++ }},
		{"not in the index", "K5", func(p *kvPool) { p.buckets[p.blocks[2].bucket] = 0 }},
		{"index loop", "K5", func(p *kvPool) { p.blocks[2].chain = 3 }},
		{"private block in the index", "K5", func(p *kvPool) { p.blocks[2].chain = 7 }},
		{"child count", "K6", func(p *kvPool) { p.blocks[3].kids++ }},
		{"child held without parent", "K7", func(p *kvPool) { p.hold(2) }},
		{"parent ahead of child", "K8", func(p *kvPool) { p.hold(2); p.drop(2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := busyKV(t)
			c.plant(p)
			err := p.check()
			if err == nil || !strings.Contains(err.Error(), "invariant "+c.want+":") {
				t.Errorf("check says %v, want a breach of %s", err, c.want)
			}
		})
	}
}

func TestKVEvictsLeastRecentlyUsedLeafFirst(t *testing.T) {
	p := newKVPool(4, 1, true)
	a, _ := p.alloc(nil, 2) // 0 1
	p.publish(tokens(1, 2), a, 0)
	b, _ := p.alloc(nil, 2) // 2 3
	p.publish(tokens(3, 4), b, 0)
	p.release(a)
	p.release(b)
	p.release(p.match(nil, tokens(1, 2))) // a is now the more recent
	var order []int32
	for range 4 {
		order, _ = p.alloc(order, 1)
	}
	if want := []int32{3, 2, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("evicted %v, want %v", order, want)
	}
}

func TestKVFlushKeepsWhatIsHeld(t *testing.T) {
	p := newKVPool(6, 1, true)
	a, _ := p.alloc(nil, 3)
	p.publish(tokens(1, 2, 3), a, 0)
	b, _ := p.alloc(nil, 2)
	p.publish(tokens(4, 5), b, 0)
	p.release(b)
	p.flush()
	if p.nIdle != 0 || p.nFree != 3 {
		t.Errorf("%d cached and %d free, want 0 and 3", p.nIdle, p.nFree)
	}
	if got := p.match(nil, tokens(4, 5)); len(got) != 0 {
		t.Errorf("match found %v, which was flushed", got)
	}
	if got := p.match(nil, tokens(1, 2, 3)); !slices.Equal(got, a) {
		t.Errorf("match found %v, want %v, which is held", got, a)
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
}

func TestKVPublishSwapsDuplicates(t *testing.T) {
	p := newKVPool(6, 2, true)
	a, _ := p.alloc(nil, 2)
	b, _ := p.alloc(nil, 3)
	p.publish(tokens(1, 2, 3, 4), a, 0)
	p.publish(tokens(1, 2, 3, 4, 5, 6), b, 0)
	if want := []int32{0, 1, 4}; !slices.Equal(b, want) {
		t.Errorf("chain after publish %v, want %v", b, want)
	}
	if p.available() != 3 {
		t.Errorf("%d blocks available, want 3: the duplicates are free", p.available())
	}
	p.release(a)
	if got := p.match(nil, tokens(1, 2, 3, 4, 5, 6)); !slices.Equal(got, b) {
		t.Errorf("match found %v, want %v", got, b)
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
}

func TestKVWithoutReuseFindsNothing(t *testing.T) {
	p := newKVPool(2, 2, false)
	a, _ := p.alloc(nil, 1)
	p.publish(tokens(1, 2), a, 0)
	p.release(a)
	if got := p.match(nil, tokens(1, 2)); len(got) != 0 {
		t.Errorf("match found %v", got)
	}
	if p.tokens != nil || p.buckets != nil {
		t.Error("a pool without reuse stores tokens")
	}
}

func TestKVBlocksFor(t *testing.T) {
	p := newKVPool(1, 16, false)
	for _, c := range [][2]int{{-1, 0}, {0, 0}, {1, 1}, {16, 1}, {17, 2}, {32, 2}} {
		if got := p.blocksFor(c[0]); got != c[1] {
			t.Errorf("blocksFor(%d) = %d, want %d", c[0], got, c[1])
		}
	}
}

func TestKVReleaseTwicePanics(t *testing.T) {
	p := newKVPool(2, 2, false)
	a, _ := p.alloc(nil, 1)
	p.release(a)
	defer func() {
		if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "scheduler: ") {
			t.Errorf("recovered %v", r)
		}
	}()
	p.release(a)
}

// TestKVSteadyStateAllocatesNothing covers a request's life on a full pool:
// match, evict, publish with a duplicate, release.
func TestKVSteadyStateAllocatesNothing(t *testing.T) {
	p := newKVPool(8, 4, true)
	ids := make([]algorithms.Token, 24)
	buf := make([]int32, 0, 8)
	round := algorithms.Token(0)
	life := func() {
		round++
		for i := range ids {
			ids[i] = round%3 + algorithms.Token(i)/12*round
		}
		blocks := p.match(buf[:0], ids[:len(ids)-1])
		have := len(blocks)
		blocks, ok := p.alloc(blocks, 6-have)
		if !ok {
			t.Fatal("pool too small")
		}
		p.publish(ids, blocks, have)
		p.release(blocks)
	}
	for range 100 {
		life()
	}
	if n := testing.AllocsPerRun(1000, life); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
}

func TestKVBlockSize(t *testing.T) {
	if size := reflect.TypeFor[kvBlock]().Size(); size != 32 {
		t.Errorf("kvBlock is %d bytes, want 32", size)
	}
}
