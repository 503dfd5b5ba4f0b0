# Waits for the end of stdin, which the kernel brings about even when the other process is killed, and then ends the
# server, if one runs, and removes the base folder.
#
# Arguments: the folder of the server programs; the base folder; the data directory.
trap '' INT HUP PIPE TERM
cd "$2" || exit 1
read -r _
[ -f "$3/postmaster.pid" ] &&
	"$1/pg_ctl" stop --pgdata="$3" --wait --silent --mode=immediate </dev/null >/dev/null 2>&1
cd /
rm -rf "$2"
