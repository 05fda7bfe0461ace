/** These scenarios record runs whose tools the model's provider calls (docs/adr/0080), at both points at which they wait. */
import { type HostingProvider, startHostingProvider } from '../../support/models/hosting-provider.ts';
import { wrongAnswers, resolve } from './resolving.ts';
import { approve, APPROVER, refused, says, type Scenario, scenario, wrongDecisions } from './scene.ts';

export const HOSTED_MODEL = 'hosted';

const WRITE = 'Write the note of monday.';
const READ = 'Read the note of monday.';

export async function startScriptedProvider(): Promise<HostingProvider> {
  const provider = await startHostingProvider();
  const called = (tool: string) => ({ server: 'notes', tool, arguments: { name: 'monday', purpose: tool } });
  provider.script(WRITE, [{ calls: [called('write_note')] }, { text: 'Done.' }]);
  provider.script(READ, [{ calls: [called('read_note')] }, { text: 'Done.' }]);
  // The allowed call is made, and its answer is lost.
  provider.fault('read_note', 'lose');
  return provider;
}

const agent = { model: HOSTED_MODEL };

export const HOSTED: readonly Scenario[] = [
  scenario('hosted-pending', { steps: [says('The provider speaks.')] }, async (scene) => {
    await scene.start({ input: WRITE }, { on: await scene.stage.hosted(), agent });
    const request = await scene.openOne('t1.c0');
    const edited = approve(request, 'an approval with other arguments', { arguments: { name: 'tuesday' } });
    await scene.take('hosted-pending', {
      refused: [...wrongDecisions(request), refused(edited, 'DECISION_NOT_PERMITTED')],
      accepted: [approve(request, 'approval')],
    });
  }),
  scenario('hosted-lost', { steps: [says('The provider speaks.')] }, async (scene) => {
    await scene.start(
      { input: READ, policy: { approvers: { ids: [APPROVER.id] } } },
      { on: await scene.stage.hosted(), agent },
    );
    const request = await scene.openOne('t1.c0');
    await scene.take('hosted-lost', { refused: wrongAnswers(request), accepted: [resolve(request, 'retry')] });
  }),
];
