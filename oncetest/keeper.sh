# Runs one PostgreSQL server for the process at the other end of stdin, and ends it with that process.
#
# Arguments: the folder of the server programs; the base folder, which holds settings.conf.
# Each line on stdin is a port to try, and is answered by one line on stdout:
#
#	ready PID     the server accepts connections
#	failed WHAT   it does not; the file log in the base folder says why
#
# The line "keep" lets the server run on and ends this script. The end of stdin, which the kernel brings about even
# when the other process is killed, ends the server and removes the base folder.
bin=$1
base=$2
data=$base/data
cd "$base" || exit 1
trap '' INT HUP PIPE TERM

prepare() {
	[ -f "$base/prepared" ] && return
	"$bin/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync \
		</dev/null >>"$base/log" 2>&1 &&
		cat "$base/settings.conf" >>"$data/postgresql.conf" &&
		: >"$base/prepared"
}

while read -r line; do
	if [ "$line" = keep ]; then
		exit 0
	elif ! prepare; then
		echo "failed initdb"
	elif "$bin/pg_ctl" start --pgdata="$data" --wait --silent --log="$base/log" --options="-p $line" \
		</dev/null >>"$base/log" 2>&1; then
		read -r pid <"$data/postmaster.pid"
		echo "ready $pid"
	else
		echo "failed postgres"
	fi
done

[ -f "$data/postmaster.pid" ] &&
	"$bin/pg_ctl" stop --pgdata="$data" --wait --silent --mode=immediate </dev/null >/dev/null 2>&1
cd /
rm -rf "$base"
