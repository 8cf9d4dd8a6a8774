package postgres

// HotStatement is a statement of the hot path and what its plan must be.
type HotStatement struct {
	Name, Text string
	// Args are literals for EXECUTE.
	Args string
	// Index is what must appear in the plan, one of them.
	Index []string
}

// HotStatements returns the texts that a store of the schema would run.
func HotStatements(schema string) []HotStatement {
	s := prepare(quoteIdent(schema) + ".")
	claim := `'q', 1, 1, 60000, 20000, '{a,b}', `
	many := `'{q,r}', 1, '{1,2}', 60000, 20000, '{a,b}', `
	settle := `1, '{1,2,3}', '{1,1,1}', '{0,0,0}', '{}', `
	fail := `1, '{1,2,3}', '{1,1,1}', '{2,3,4}', '{0,0,0}', '{0,0,0}', ` +
		`'{a,a,a}', '{a,a,a}', '{a,a,a}', '{a,a,a}', '{a,a,a}', '{a,a,a}', '{a,a,a}', '{a,a,a}', '{a,a,a}'`
	return []HotStatement{
		{"ready", s.claim(sourceReady, true), claim + `0, 0, 10, 7, NULL`, []string{"messages_ready"}},
		{"ready any kind", s.claim(sourceReady, false), `'q', 1, 1, 60000, 20000, NULL, 0, 0, 10, 7, NULL`, []string{"messages_ready"}},
		{"due", s.claim(sourceDue, true), claim + `'-infinity', NULL, 10, 7, NULL`, []string{"messages_due"}},
		{"suspect", s.claim(sourceSuspect, true), claim + `'-infinity', NULL, 10, 7, NULL`, []string{"messages_suspect"}},
		{"ready many", s.claimMany(sourceReady, true), many + `'{0,0}', '{0,0}', '{10,100}', '{7,71}', '{NULL,5}'`, []string{"messages_ready"}},
		{"due many", s.claimMany(sourceDue, true), many + `'{-infinity,-infinity}', '{}', '{10,100}', '{7,71}', '{NULL,5}'`, []string{"messages_due"}},
		{"probe", s.probe(true), `'{q,r}', '{a,b}', '{-infinity,-infinity}', true, '{3,4}', '{-9,0,1,-9}', '{-1,0,9,9}', '{0,0,0,0}', '{0,7,0,-7}', '{5,5}'`, []string{"messages_ready"}},
		{"succeed by place", expand(succeedText(true, false, false), s.prefix), settle + `'{"(0,1)","(0,2)","(0,3)"}'`, []string{"Tid Scan on messages"}},
		{"succeed by id", expand(succeedText(false, false, false), s.prefix), settle + `'{}'`, []string{"messages_pkey"}},
		{"fail", expand(failText, s.prefix), fail, []string{"messages_pkey"}},
		{"remote ready any kind", s.claimBy(sourceReady, false, true), `'q', -1, 0, 60000, 1, NULL, 0, 0, 10`, []string{"messages_ready"}},
		{"remote ready", s.claimBy(sourceReady, true, true), `'q', -1, 0, 60000, 0, '{a,b}', 0, 0, 10`, []string{"messages_ready"}},
		{"remote due", s.claimBy(sourceDue, false, true), `'q', -1, 0, 60000, 1, NULL, '-infinity', NULL, 10`, []string{"messages_due"}},
		{"succeed remote", expand(succeedRemoteText, s.prefix), `'q', '{1,2,3}', '{1,0,1}', '{NULL,NULL,NULL}'`, []string{"messages_pkey"}},
		{"fail remote", expand(failRemoteText, s.prefix), `'q'` + fail[1:], []string{"messages_pkey"}},
	}
}
