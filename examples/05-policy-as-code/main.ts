/** The policy passes its cases; a change that lets large refunds through does not, and CI stops it. Nothing is started. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const at = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** What CI runs. */
function policyTest(config: string) {
  const args = ['countersign', 'policy', 'test', at('cases.yaml'), '--config', at(config)];
  return spawnSync('npx', ['--no-install', ...args], { encoding: 'utf8' });
}

const passes = policyTest('countersign.yaml');
assert.equal(passes.status, 0, passes.stderr);

const fails = policyTest('loosened.yaml');
assert.equal(fails.status, 7, 'a failed check has exit code 7');
assert.match(fails.stderr, /POLICY_CASES_FAILED/);
assert.match(fails.stdout, /a large one needs two of finance/, 'it names the case');

console.log(`${passes.stdout.trim().split('\n').at(-1)}; the loosened policy is stopped`);
