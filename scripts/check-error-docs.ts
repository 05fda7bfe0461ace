/**
 * Keeps docs/errors/ equal to the error table, so that nobody on call is sent to a page that is missing or states other
 * traits.
 *
 * `npx tsx scripts/check-error-docs.ts` exits 1 naming every page that is missing, belongs to no code, or is wrong.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { type ErrorCode, ERRORS, type ErrorTraits, isErrorCode, traitsOf } from '../contracts/errors.ts';

const FOLDER = new URL('../docs/errors/', import.meta.url);
/** A shorter page says nothing, and a longer one is not read at night. */
const LINES = { least: 8, most: 18 };

function faultsOf(code: ErrorCode, page: string): string[] {
  const lines = page.trimEnd().split('\n');
  const stated = traitsIn(page);
  const { retryable, httpStatus, exitCode } = traitsOf(code);
  const faults: string[] = [];
  if (lines[0] !== `# ${code}`) faults.push(`must begin with "# ${code}"`);
  if (stated === undefined) faults.push('has no line "| yes or no | HTTP status | exit code |"');
  else if (stated.retryable !== retryable || stated.httpStatus !== httpStatus || stated.exitCode !== exitCode) {
    faults.push(`must state | ${retryable ? 'yes' : 'no'} | ${httpStatus} | ${exitCode} |, as the table does`);
  }
  if (!/^Seen by /m.test(page)) faults.push('must say who sees it ("Seen by …")');
  if (!/^1\. /m.test(page)) faults.push('must say what to do next, as a numbered list');
  if (lines.length < LINES.least || lines.length > LINES.most) {
    faults.push(`has ${lines.length} lines; ${LINES.least} to ${LINES.most} are wanted`);
  }
  return faults;
}

function traitsIn(page: string): ErrorTraits | undefined {
  const row = /^\| (yes|no) \| (\d{3}) \| (\d{1,2}) \|$/m.exec(page);
  if (row === null) return undefined;
  return { retryable: row[1] === 'yes', httpStatus: Number(row[2]), exitCode: Number(row[3]) };
}

function main(): number {
  const pages = readdirSync(FOLDER).filter((file) => file.endsWith('.md'));
  const codes = Object.keys(ERRORS).filter(isErrorCode);
  const problems = [
    ...codes.filter((code) => !pages.includes(`${code}.md`)).map((code) => `docs/errors/${code}.md is missing`),
    ...pages.flatMap((file) => {
      const code = file.slice(0, -'.md'.length);
      if (!isErrorCode(code)) return [`docs/errors/${file} belongs to no code of contracts/errors.ts`];
      return faultsOf(code, readFileSync(new URL(file, FOLDER), 'utf8')).map((fault) => `docs/errors/${file} ${fault}`);
    }),
  ];
  for (const problem of problems) console.error(problem);
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = main();
