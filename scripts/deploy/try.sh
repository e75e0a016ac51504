#!/usr/bin/env bash
# Tries the Dockerfile where no container can be built: runs its steps in an empty root folder, as the users that it names,
# then starts the result there with a log of its own, waits for its health check, and stops it. Needs root on Linux, for
# chroot. Usage: RPC_URL_ETH=… scripts/deploy/try.sh [command …]
# With a command: runs it while the service serves, with its address in SERVICE_URL and a key in SERVICE_KEY.
# Exit codes: 0 all held, 1 something didn't, 3 this machine can't run it.
set -euo pipefail

project=$(cd "$(dirname "$0")/../.." && pwd)
dockerfile=$project/Dockerfile
bun=$(command -v bun || true)
# `bun run` by npx has no bun on the path, but names its own.
bun=${BUN:-$bun}

fail() { echo "try.sh: $*" >&2; exit 1; }
cannot() { echo "try.sh: $*" >&2; exit 3; }
[ "$(id -u)" = 0 ] || cannot "chroot needs root"
[ -x "$bun" ] || cannot "bun is not on the path; name it in BUN"
# Mounts of a namespace of its own end with the script.
if [ -z "${TRY_NAMESPACE:-}" ]; then
  unshare --mount true 2>/dev/null || cannot "this machine doesn't permit mounts"
  TRY_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi

chroot=$(command -v chroot) || cannot "there is no chroot"
top=$(mktemp -d)
service=
cleanup() {
  [ -z "$service" ] || kill -KILL "$service" 2>/dev/null || true
  umount "$top"/*/proc 2>/dev/null || true
  rm -rf --one-file-system "$top"
}
trap cleanup EXIT
"$chroot" / true 2>/dev/null || cannot "this machine doesn't permit chroot"

# Copies a program and the libraries that it loads.
place() { # root program [destination]
  local root=$1 program=$2 destination=${3:-$2} library
  install -D -m 755 "$program" "$root$destination"
  for library in $(ldd "$program" 2>/dev/null | grep -o '/[^ )]*' || true); do
    [ -e "$root$library" ] || install -D -m 755 "$(readlink -f "$library")" "$root$library"
  done
}

# An empty root with the runtime and the few programs that the steps use: what the base image has, as far as they need it.
base() { # root
  local root=$1 name
  mkdir -p "$root"/{etc,tmp,dev,proc,usr/bin,bin}
  chmod 1777 "$root/tmp"
  # The runtime learns the size of its stack there.
  mount --bind /proc "$root/proc" || cannot "this machine doesn't permit mounts"
  place "$root" "$(readlink -f "$bun")" /usr/local/bin/bun
  for name in sh env; do place "$root" "$(readlink -f "$(command -v $name)")" "/bin/$name"; done
  ln -s ../../bin/env "$root/usr/bin/env"
  for name in find rm mkdir chown id; do place "$root" "$(readlink -f "$(command -v $name)")" "/usr/bin/$name"; done
  # Loaded by name at run time: the resolver of host names, and what native packages link.
  for name in libnss_files.so.2 libnss_dns.so.2 libresolv.so.2 libstdc++.so.6 libgcc_s.so.1; do
    library=$(ldconfig -p | awk -v name="$name" '$1 == name && /x86-64|aarch64|AArch64/ && !n++ { print $NF }')
    [ -z "$library" ] || install -D -m 755 "$(readlink -f "$library")" "$root$library"
  done
  cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  mknod -m 666 "$root/dev/null" c 1 3 && mknod -m 666 "$root/dev/urandom" c 1 9 || cannot "this machine doesn't permit device files"
}

# ── The Dockerfile, step by step ──
declare -A roots=() arguments=() environment=()
root= workdir=/ user=0:0 volume= health= entrypoint=

expand() { # text: with the arguments of the build
  local text=$1 name
  for name in "${!arguments[@]}"; do text=${text//\$\{$name\}/${arguments[$name]}}; done
  echo "$text"
}
prepare() { # command: sets `prepared` to what runs it in the root, as the user, with the environment of the image
  local name variables=()
  for name in "${!environment[@]}"; do variables+=("$name=${environment[$name]}"); done
  # The registry and the cache of packages are those of this machine.
  for name in npm_config_registry BUN_CONFIG_REGISTRY HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || variables+=("$name=${!name}")
  done
  prepared=(env -i "$chroot" --userspec="$user" "$root" /bin/env PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp "${variables[@]}" "${extra[@]}" \
    /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$workdir" "$@")
}
inside() { prepare "$@"; "${prepared[@]}"; }
extra=()

# Joins lines that end with a backslash, and drops comments.
steps=$(sed -e ':join' -e '/\\$/N; s/\\\n//; t join' "$dockerfile" | grep -vE '^[[:space:]]*(#|$)')
while IFS= read -r step; do
  word=${step%% *} rest=${step#* }
  echo "── $step"
  case $word in
    ARG) arguments[${rest%%=*}]=${rest#*=} ;;
    FROM)
      rest=$(expand "$rest")
      [[ $rest == oven/bun:* ]] || fail "the base image ${rest%% *} is not known here"
      wanted=${rest#oven/bun:} wanted=${wanted%%-*}
      [ "$("$bun" --version)" = "$wanted" ] || fail "the Dockerfile wants Bun $wanted, and this is $("$bun" --version)"
      root=$top/${#roots[@]}
      roots[${rest##* AS }]=$root
      base "$root"
      workdir=/ user=0:0 environment=()
      ;;
    WORKDIR) workdir=$rest; mkdir -p "$root$rest" ;;
    COPY)
      from=$project
      if [[ $rest == --from=* ]]; then
        from=${rest%% *} from=${roots[${from#--from=}]} rest=${rest#* }
      fi
      read -ra paths <<<"$rest"
      target=${paths[-1]}
      [[ $target == /* ]] || target=$workdir/$target
      for path in "${paths[@]:0:${#paths[@]}-1}"; do
        [ -e "$from/$path" ] || fail "$path does not exist"
        # A folder's content is copied, a file goes into a folder.
        if [ -d "$from/$path" ]; then mkdir -p "$root$target"; cp -a "$from/$path/." "$root$target/"; else cp -a "$from/$path" "$root$target"; fi
      done
      chown -R 0:0 "$root$workdir"
      ;;
    RUN)
      cache=$("$bun" pm cache 2>/dev/null || true)
      extra=()
      if [[ $rest == "bun install "* && -d $cache ]]; then
        # Links where it can: the packages are read only.
        cp -al "$cache" "$root/tmp/packages" 2>/dev/null || cp -a "$cache" "$root/tmp/packages"
        extra=(BUN_INSTALL_CACHE_DIR=/tmp/packages)
      fi
      inside /bin/sh -c "$rest"
      # The cache belongs to this machine, and is in no image.
      rm -rf "$root/tmp/packages"
      extra=()
      ;;
    ENV) environment[${rest%%=*}]=${rest#*=} ;;
    USER) user=$rest ;;
    VOLUME) volume=$rest ;;
    EXPOSE | STOPSIGNAL) [[ $step == "STOPSIGNAL SIGTERM" || $word == EXPOSE ]] || fail "the signal is not known here" ;;
    HEALTHCHECK) health=${rest#*CMD } ;;
    ENTRYPOINT) entrypoint=$rest ;;
    *) fail "the step $word is not known here" ;;
  esac
done <<<"$steps"

# ── The result ──
[ "${user%%:*}" != 0 ] || fail "the image runs as root"
packages=$(du -sm "$root$workdir/node_modules" | cut -f1)
runtime=$(du -sm "$root/usr/local/bin/bun" | cut -f1)
echo "packages: $packages MB, runtime: $runtime MB, sources: $(du -sm "$root$workdir/src" | cut -f1) MB"
writable=$(inside /usr/bin/find / -xdev -path /proc -prune -o -writable ! -type l ! -path '/tmp*' ! -path "$volume*" ! -path '/dev/*' -print)
[ -z "$writable" ] || fail "the service could write outside of its volume: $writable"
echo "writable: $volume and /tmp"

# JSON lists of words, as Docker reads them.
words() { "$bun" -e 'for (const word of JSON.parse(process.argv[1])) process.stdout.write(word + "\0")' "$1"; }
mapfile -d '' -t start < <(words "$entrypoint")
mapfile -d '' -t check < <(words "$health")

key=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
port=$("$bun" -e 'const s = Bun.serve({ port: 0, fetch: () => new Response() }); console.log(s.port); s.stop(true)')
environment[PORT]=$port
environment[HOST]=127.0.0.1
environment[OPERATOR_KEYS]=$key
environment[RPC_URLS_ONLY]=true
environment[RPC_URL_ETH]=${RPC_URL_ETH:?the address of a node}
echo "── ${start[*]}"
prepare "${start[@]}"
# Not by a function: the process must be the service itself, for the signal.
"${prepared[@]}" &
service=$!
tries=0
until inside "${check[@]}" 2>/dev/null; do
  kill -0 "$service" 2>/dev/null || fail "the service ended"
  tries=$((tries + 1))
  [ "$tries" -lt 120 ] || fail "the health check did not pass"
  read -rt 0.5 <> <(:) || true
done
echo "healthy: ${check[*]}"
# The check passes as soon as the process lives, before the log is open. A request waits until it is ready, as a proxy does.
ready=$("$bun" -e 'console.log(JSON.stringify(["bun", "-e", process.argv[1].replace("/health/live", "/health/ready")]))' "${check[2]}")
mapfile -d '' -t ready < <(words "$ready")
until inside "${ready[@]}" 2>/dev/null; do
  kill -0 "$service" 2>/dev/null || fail "the service ended"
  tries=$((tries + 1))
  [ "$tries" -lt 120 ] || fail "the service did not become ready"
  read -rt 0.5 <> <(:) || true
done
if [ $# -gt 0 ]; then SERVICE_URL=http://127.0.0.1:$port SERVICE_KEY=$key "$@"; fi

kill -TERM "$service"
status=0
wait "$service" || status=$?
service=
[ "$status" = 0 ] || fail "the service ended with $status after SIGTERM"
[ -s "$root$volume/events.db" ] || fail "the log is not in $volume"
echo "stopped in order; the log is in $volume"
