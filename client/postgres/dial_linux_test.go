package postgres_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
)

func TestOpenWatchesTheConnection(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	withPgx(t, db.DB, func(conn *pgx.Conn) {
		tcp, ok := conn.PgConn().Conn().(*net.TCPConn)
		if !ok {
			require.NotEqual(t, "true", os.Getenv("CI"), "the server of the tests is reached by plain TCP")
			t.Skip("the server is not reached by plain TCP")
		}
		raw, err := tcp.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			for name, test := range map[string]struct{ level, option, want int }{
				"keepalive":          {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
				"keepalive idle":     {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 30},
				"keepalive interval": {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 10},
				"user timeout":       {syscall.IPPROTO_TCP, 0x12, 30_000},
			} {
				got, err := syscall.GetsockoptInt(int(fd), test.level, test.option)
				require.NoError(t, err, name)
				require.Equal(t, test.want, got, name)
			}
		}))
	})
}
