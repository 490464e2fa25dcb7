-- The keys of a limit that are held or waited for.   $1 name  $2 computed before (NULL: whenever)  $3 after  $4 how many
SELECT key, held, waiting FROM headgate._keys_of_limit($1, $2, $3, $4);
