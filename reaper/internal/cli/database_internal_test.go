package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzLocation(f *testing.F) {
	for _, seed := range []string{
		"", "styx.db", "sqlite:", "sqlite:a.db", "file:a.db?mode=ro", "postgres://user:secret@host:5432/db?sslmode=disable",
		"postgresql://[::1]/x", "postgres://%zz", "POSTGRES://h", "mysql://h", "host=h password=secret", "\x00.db",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		loc, err := parseLocation("--database-url", text)
		if err != nil {
			require.NotContains(t, err.Error(), text+"\x00", "an error does not quote what may hold a password")
			require.ErrorAs(t, err, new(usageError))
			return
		}
		require.Contains(t, []string{enginePostgres, engineSQLite}, loc.Engine)
		require.NotEmpty(t, loc.Target)
		if at := strings.LastIndex(text, "@"); loc.Engine == enginePostgres && at > 0 {
			if _, secret, found := strings.Cut(text[:at], "//user:"); found && len(secret) > 8 {
				require.NotContains(t, loc.Target, secret)
			}
		}
	})
}
