"""The only place with SQL. Every function works in the transaction of the connection it is given."""
