// Notes the time at which it is told of an event; ends when it is told to, and returns what it noted.
import { condition, defineQuery, defineSignal, defineUpdate, setHandler } from '@temporalio/workflow';

export async function noting() {
  const notes = [];
  let isOver = false;
  setHandler(defineQuery('notes'), () => notes);
  setHandler(defineUpdate('touch'), () => notes.push(Date.now()));
  setHandler(defineSignal('event'), () => void notes.push(Date.now()));
  setHandler(defineUpdate('end'), () => void (isOver = true));
  await condition(() => isOver);
  return notes;
}
