package main

// Masks of what a claimant may choose from, as once.pml defines them.
const (
	readCommitted = 1 // READ COMMITTED, the row is written at once
	deferred      = 2 // READ COMMITTED, the row is written by complete
	oneSnapshot   = 4 // REPEATABLE READ or SERIALIZABLE
	anyForm       = readCommitted | deferred | oneSnapshot

	atOnce = 1 // the claim writes its row finished
	leased = 2 // a later transaction completes or releases
	same   = 4 // the claim's own transaction completes or releases
	anyEnd = atOnce | leased | same
)

// search is one exhaustive search of a world.
type search struct {
	name        string
	off         []string // safeguards, as once.pml names them
	generations int      // rotations + 1
	retirements int
	maintainers int
	drops       bool // retired generations are dropped
	lookup      bool // somebody looks the key up meanwhile
	retries     int  // times that a committed completion or release is sent again
	claimants   []claimant
	found       bool // a counterexample must be found; otherwise none may be
	quick       bool // takes seconds
}

// claimant says which forms of claim and which ends of it there may be.
type claimant struct{ how, then int }

var (
	anyClaim = claimant{anyForm, anyEnd}
	one      = []claimant{anyClaim}
	two      = []claimant{anyClaim, anyClaim}
	three    = []claimant{anyClaim, anyClaim, anyClaim}
)

var searches = []search{
	// The protocol as it is.
	{name: "3 claimants, 1 rotation", generations: 2, maintainers: 1, claimants: three},
	{name: "2 claimants, 2 rotations, 1 retirement", generations: 3, retirements: 1, maintainers: 1, drops: true, claimants: two},
	{name: "2 claimants, 2 rotations, 2 retirements", generations: 3, retirements: 2, maintainers: 1, drops: true, claimants: two},
	{name: "2 claimants, 1 retirement, 2 maintainers", generations: 2, retirements: 1, maintainers: 2, drops: true, claimants: two},
	{name: "2 claimants, one completes or releases twice", generations: 3, retirements: 1, maintainers: 1, retries: 1, claimants: []claimant{{anyForm, leased}, anyClaim}},
	{name: "1 claimant, 2 rotations, 2 maintainers", generations: 3, retirements: 1, maintainers: 2, drops: true, retries: 1, claimants: []claimant{{anyForm, leased}}, quick: true},
	{name: "1 claimant and a lookup", generations: 3, retirements: 1, maintainers: 1, lookup: true, claimants: one},

	// One safeguard off.
	off("the key's lock", "NO_LOCK"),
	off("the fence in the insert", "NO_FENCE"),
	off("the fence never goes back", "FENCE_GOES_BACK").quickly(),
	off("a fresh claim id, not the attempt alone", "NO_CLAIM_ID").with(func(s *search) {
		s.retries = 1
		s.claimants = []claimant{{readCommitted, leased}, {readCommitted, leased}}
	}).quickly(),
	off("the leaf's lock before the fence", "FENCE_BEFORE_LEAF"),
	off("tombstones where the snapshot is too old", "NO_TOMBSTONES").quickly(),
	off("the drained mark as the snapshot has it, not as it is now", "DRAINED_FRESH"),
	off("drained only when the writers have ended", "NO_DRAIN"),
	off("retired only when drained", "RETIRE_UNDRAINED"),
	off("dropped only when the epoch is settled", "NO_SETTLE").quickly(),
	off("published before the switch", "SWITCH_FIRST"),
	off("the fence after waiting for the key's lock", "WAIT_NO_FENCE"),
	off("a deferred claim's fence after its lock", "DEFER_FENCE_FIRST"),
	off("the fence in a deferred claim's insert", "DEFER_NO_FENCE"),
	off("the key's lock in complete and release", "SETTLE_NO_LOCK"),
	off("the key's lock in carrying over", "CARRY_NO_LOCK"),
	off("the scope's lock of maintenance", "NO_SCOPE_LOCK").with(func(s *search) { s.maintainers = 2 }),
	off("lookup's second look at the fence", "LOOKUP_ONCE").with(func(s *search) { s.lookup, s.claimants = true, one }),

	// Safeguards of which either is enough.
	off("the fence and the scope's lock in carrying over", "CARRY_NO_FENCE", "CARRY_NO_SCOPE_LOCK").with(func(s *search) { s.maintainers = 2 }),
	off("the fence in carrying over, alone", "CARRY_NO_FENCE").inVain(),
	off("the scope's lock in carrying over, alone", "CARRY_NO_SCOPE_LOCK").inVain(),
	off("the fence in complete and release, alone", "SETTLE_NO_FENCE").inVain(),
}

// off is the search for a counterexample with safeguards off.
func off(name string, safeguards ...string) search {
	return search{name: "off: " + name, off: safeguards, generations: 3, retirements: 1, maintainers: 1, drops: true, claimants: two, found: true}
}

func (s search) with(change func(*search)) search {
	change(&s)
	return s
}

func (s search) quickly() search {
	s.quick = true
	return s
}

// inVain marks safeguards that are doubled: nothing is found without them.
func (s search) inVain() search {
	s.found = false
	return s
}
