// Opens a page in Chromium, does to it what it is told, and writes what the page has seen at the end, as JSON.
import { chromium } from "playwright-core";

const { executable, url, acts, patience } = JSON.parse(process.argv[2]);

// The line is cut while a page is loaded, too.
async function load(page, go) {
  for (let tries = 1; ; tries += 1) {
    try {
      await go();
      if (await page.evaluate(() => "seen" in window)) return;
    } catch (error) {
      if (tries === 10) throw error;
    }
  }
}

async function drive(page) {
  const asked = [];
  page.on("request", (request) => request.url().endsWith("/events") && asked.push(request));
  await load(page, () => page.goto(url));
  for (const { after, act } of acts) {
    await page.waitForFunction((count) => window.seen.events.length >= count, after, { polling: 50 });
    if (act === "reload") await load(page, () => page.reload());
    else await page.click(`#${act}`);
  }
  await page.waitForFunction(() => window.seen.ended, null, { polling: 50 });
  const answers = await Promise.all(asked.map((request) => request.response()));
  const statuses = answers.map((answer) => answer && answer.status());
  console.log(JSON.stringify({ ...(await page.evaluate(() => window.seen)), statuses }));
}

const browser = await chromium.launch({ executablePath: executable, chromiumSandbox: false }); // root has no sandbox
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience * 1000);
  await Promise.race([drive(page), new Promise((_, fail) => page.on("pageerror", fail))]);
} finally {
  await browser.close();
}
