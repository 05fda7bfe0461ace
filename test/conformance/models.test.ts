/** The models port, its scripted model and its three providers. */
import { createScriptedModel } from '../../activities/models/scripted.ts';
import { defined } from '../../contracts/defined.ts';
import { Script } from '../../contracts/schemas/script.ts';
import { anthropicDialect } from '../support/model-anthropic.ts';
import { startModelBench } from '../support/model-bench.ts';
import { chatDialect } from '../support/model-chat.ts';
import type { Dialect, Said } from '../support/model-dialect.ts';
import { openaiDialect } from '../support/model-openai.ts';
import { LIST_FILES, READ_FILE } from '../support/model-request.ts';
import { type ModelHarness, modelSuite } from './models.suite.ts';
import { providerSuite } from './models-provider.suite.ts';
import { refusalSuite } from './models-refusal.suite.ts';

const scripted: ModelHarness = {
  name: 'scripted',
  start: async () => ({
    modelThatSays: (...answers) =>
      createScriptedModel(Script.parse({ steps: answers.length === 0 ? [{}] : answers.map(scriptStep) })),
    close: async () => undefined,
  }),
};

function scriptStep({ parts }: Said): unknown {
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []))[0];
  const calls = parts.flatMap((part) =>
    part.type === 'call' ? [{ tool: part.name, arguments: JSON.parse(part.json) as unknown }] : [],
  );
  return { calls, ...defined({ text }) };
}

function overTheWire(dialect: Dialect): ModelHarness {
  return {
    name: dialect.provider,
    start: async () => {
      const bench = await startModelBench(dialect);
      return {
        modelThatSays: (...answers) => {
          bench.reply(...answers.map((answer) => ({ ...answer, parts: answer.parts.map(underModelName) })));
          return bench.model();
        },
        close: async () => bench.server.close(),
      };
    },
  };
}

/** A provider's model says the name that it was offered. */
function underModelName(part: Said['parts'][number]): Said['parts'][number] {
  if (part.type !== 'call') return part;
  const tool = [READ_FILE, LIST_FILES].find(({ qualifiedName }) => qualifiedName === part.name);
  return { ...part, name: tool?.name ?? part.name };
}

modelSuite(scripted);
for (const dialect of [openaiDialect, anthropicDialect, chatDialect]) {
  modelSuite(overTheWire(dialect));
  providerSuite(dialect);
  refusalSuite(dialect);
}
