// Grades a lab on the running cluster:  grade.ts 2.  With the options of check.ts.
import './check.ts'
