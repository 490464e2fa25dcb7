-- The keys of a limit in the order of a listing.   $1 name  $2 after this text  $3 and tenant  $4 how many (NULL: all)
SELECT key, held, waiting FROM headgate._listed_keys($1, $2, $3, $4);
