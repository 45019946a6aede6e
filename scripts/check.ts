// Grades a capture or a submission: check.ts --capture PLACE. Without one, the running cluster, as
// grade.ts does.
import './grade.ts'
