/** `countersign policy`: what the organisation's policy says, before anything runs under it. */
import type { Command } from 'commander';
import { examples } from '../examples.ts';
import type { Terminal } from '../terminal.ts';
import { addCheck } from './policy/check.ts';
import { addExplain } from './policy/explain.ts';
import { addTest } from './policy/test.ts';

export function addPolicy(program: Command, terminal: Terminal): void {
  const policy = program
    .command('policy')
    .summary('check, explain and test the policy of the configuration')
    .description("What the organisation's policy says of calls, without a server and without Temporal")
    .addHelpText('after', examples('policy check', 'policy explain files write_file', 'policy test policy-cases.yaml'));
  for (const addVerb of [addCheck, addExplain, addTest]) addVerb(policy, terminal);
}
