#!/bin/sh
# Any language will do. This one takes the text out of {"text": "..."} and counts what stands between blanks.
sed -e 's/^{"text":"//' -e 's/"}$//' -e 's/\\n/ /g' | wc -w | tr -d ' '
