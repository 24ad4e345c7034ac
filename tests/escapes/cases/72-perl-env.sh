#: what: perl empties %ENV and executes, in a double fork
#: kind: accident
perl -e 'if(!fork){%ENV=();if(!fork){select(undef,undef,undef,.2);exec $ARGV[0]."/esc-worker",$ARGV[0],"path"}exit 0}wait' "$1"
exit 0
