-- Tables are as they were; with this version all functions are made anew.
SELECT 1;
